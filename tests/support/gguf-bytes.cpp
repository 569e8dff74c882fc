#include "support/gguf-bytes.h"

#include "io/gguf-values.h"

#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace buoy::test {

namespace {

std::string padded(std::string bytes, uint64_t alignment) {
    while (bytes.size() % alignment != 0) {
        bytes += '\0';
    }
    return bytes;
}

template <typename List, typename Name> auto & find_by(List & list, Name name, const std::string & wanted) {
    for (auto & item : list) {
        if (item.*name == wanted) {
            return item;
        }
    }
    throw std::logic_error("the test asks for '" + wanted + "', which it has not added");
}

template <typename List, typename Item> void erase_from(List & list, const Item & item) {
    list.erase(list.begin() + (&item - list.data()));
}

// Takes a correct file apart, front to back.
class Taker {
public:
    explicit Taker(const std::string & bytes) : bytes_(bytes) {}

    size_t at() const { return at_; }

    std::string take(size_t size) {
        at_ += size;
        return bytes_.substr(at_ - size, size);
    }

    template <typename T> T number() {
        T value;
        std::memcpy(&value, take(sizeof(value)).data(), sizeof(value));
        return value;
    }

    std::string text() { return take(number<uint64_t>()); }

    void skip_item(uint32_t type) {
        if (type == GGUF_TYPE_STRING) {
            text();
        } else {
            take(gguf_item_size(static_cast<gguf_type>(type)));
        }
    }

    // As it is in the file, behind the type.
    std::string value(uint32_t type) {
        const size_t first = at_;
        if (type == GGUF_TYPE_ARRAY) {
            const auto item = number<uint32_t>();
            for (auto n = number<uint64_t>(); n > 0; --n) {
                skip_item(item);
            }
        } else {
            skip_item(type);
        }
        return bytes_.substr(first, at_ - first);
    }

private:
    const std::string & bytes_;
    size_t              at_ = 0;
};

} // namespace

std::string gguf_string(const std::string & text, std::optional<uint64_t> length) {
    return le<uint64_t>(length.value_or(text.size())) + text;
}

GgufBytes & GgufBytes::text(const std::string & key, const std::string & value) {
    pairs.push_back({key, GGUF_TYPE_STRING, gguf_string(value), std::nullopt});
    return *this;
}

GgufBytes & GgufBytes::texts(const std::string & key, const std::vector<std::string> & values) {
    std::string items;
    for (const std::string & value : values) {
        items += gguf_string(value);
    }
    return array(key, GGUF_TYPE_STRING, values.size(), items);
}

GgufBytes & GgufBytes::array(const std::string & key, uint32_t item_type, uint64_t count, const std::string & items) {
    pairs.push_back({key, GGUF_TYPE_ARRAY, le(item_type) + le(count) + items, std::nullopt});
    return *this;
}

GgufBytes & GgufBytes::tensor(const std::string & name, ggml_type type, const std::vector<int64_t> & dims) {
    int64_t n_rows = 1;
    for (size_t i = 1; i < dims.size(); ++i) {
        n_rows *= dims[i];
    }
    std::string data(ggml_row_size(type, dims[0]) * static_cast<size_t>(n_rows), '\0');
    for (size_t i = 0; i < data.size(); ++i) {
        data[i] = static_cast<char>((i * 7 + tensors.size()) & 0x3f);
    }
    tensors.push_back({name, dims, static_cast<uint32_t>(type), data, std::nullopt, std::nullopt, std::nullopt});
    return *this;
}

std::string GgufBytes::header() const {
    std::string out = magic + le(version) + le<uint64_t>(n_tensors.value_or(tensors.size())) +
                      le<uint64_t>(n_pairs.value_or(pairs.size()));
    for (const Pair & pair : pairs) {
        out += gguf_string(pair.key, pair.key_length) + le(pair.type) + pair.value;
    }
    uint64_t offset = 0;
    for (const Tensor & tensor : tensors) {
        out += gguf_string(tensor.name, tensor.name_length);
        out += le<uint32_t>(tensor.n_dims.value_or(static_cast<uint32_t>(tensor.dims.size())));
        for (const int64_t dim : tensor.dims) {
            out += le(dim);
        }
        out += le(tensor.type) + le<uint64_t>(tensor.offset.value_or(offset));
        offset += padded(tensor.data, alignment).size();
    }
    return out;
}

std::string GgufBytes::build() const {
    std::string out = padded(header(), alignment);
    for (const Tensor & tensor : tensors) {
        out += padded(tensor.data, alignment);
    }
    return out;
}

GgufBytes::Pair & GgufBytes::pair(const std::string & key) { return find_by(pairs, &Pair::key, key); }

GgufBytes::Tensor & GgufBytes::tensor(const std::string & name) { return find_by(tensors, &Tensor::name, name); }

void GgufBytes::erase_pair(const std::string & key) { erase_from(pairs, pair(key)); }

void GgufBytes::erase_tensor(const std::string & name) { erase_from(tensors, tensor(name)); }

GgufBytes parse_gguf(const std::string & bytes) {
    Taker     from(bytes);
    GgufBytes file;
    file.magic           = from.take(4);
    file.version         = from.number<uint32_t>();
    const auto n_tensors = from.number<uint64_t>();
    for (auto n = from.number<uint64_t>(); n > 0; --n) {
        GgufBytes::Pair pair;
        pair.key   = from.text();
        pair.type  = from.number<uint32_t>();
        pair.value = from.value(pair.type);
        file.pairs.push_back(pair);
    }
    std::vector<uint64_t> offsets;
    for (uint64_t i = 0; i < n_tensors; ++i) {
        GgufBytes::Tensor tensor;
        tensor.name = from.text();
        for (auto n = from.number<uint32_t>(); n > 0; --n) {
            tensor.dims.push_back(from.number<int64_t>());
        }
        tensor.type = from.number<uint32_t>();
        offsets.push_back(from.number<uint64_t>());
        file.tensors.push_back(tensor);
    }
    const size_t data = (from.at() + file.alignment - 1) / file.alignment * file.alignment;
    for (size_t i = 0; i < file.tensors.size(); ++i) {
        const size_t end     = i + 1 < offsets.size() ? data + offsets[i + 1] : bytes.size();
        file.tensors[i].data = bytes.substr(data + offsets[i], end - data - offsets[i]);
    }
    return file;
}

GgufBytes gguf_sample() {
    GgufBytes file;
    file.text("general.architecture", "llama");
    file.number("a.u8", GGUF_TYPE_UINT8, uint8_t{200});
    file.number("a.i8", GGUF_TYPE_INT8, int8_t{-100});
    file.number("a.u16", GGUF_TYPE_UINT16, uint16_t{60000});
    file.number("a.i16", GGUF_TYPE_INT16, int16_t{-30000});
    file.u32("a.u32", 4000000000u);
    file.number("a.i32", GGUF_TYPE_INT32, int32_t{-2000000000});
    file.number("a.u64", GGUF_TYPE_UINT64, uint64_t{1} << 62);
    file.number("a.i64", GGUF_TYPE_INT64, -(int64_t{1} << 62));
    file.f32("a.f32", 0.5f);
    file.number("a.f64", GGUF_TYPE_FLOAT64, -0.25);
    file.number("a.bool", GGUF_TYPE_BOOL, uint8_t{1});
    file.array("a.ints", GGUF_TYPE_INT32, 3, le(int32_t{1}) + le(int32_t{-2}) + le(int32_t{3}));
    file.array("a.floats", GGUF_TYPE_FLOAT32, 2, le(1.5f) + le(-2.5f));
    file.array("a.bools", GGUF_TYPE_BOOL, 2, le(uint8_t{1}) + le(uint8_t{0}));
    file.array("a.none", GGUF_TYPE_UINT8, 0, "");
    file.texts("a.texts", {"", "one", std::string("two\0", 4)});
    file.tensor("norm.weight", GGML_TYPE_F32, {7});
    file.tensor("half.weight", GGML_TYPE_F16, {16, 3});
    file.tensor("quant.weight", GGML_TYPE_Q8_0, {64, 2});
    file.tensor("cube.weight", GGML_TYPE_F32, {8, 2, 2, 1});
    return file;
}

std::string write_file(const std::string & dir, const std::string & name, const std::string & bytes) {
    const std::string path = dir + "/" + name;
    std::filesystem::remove(path); // some file systems wait for the disk when a file is truncated and rewritten
    std::ofstream out(path, std::ios::binary);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    if (!out.flush()) {
        throw std::runtime_error("cannot write " + path);
    }
    return path;
}

} // namespace buoy::test
