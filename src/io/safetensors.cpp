#include "io/safetensors.h"

#include "base/checked.h"
#include "base/file-name.h"
#include "buoy/message.h"
#include "io/json-file.h"
#include "io/mapped-file.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <optional>
#include <set>

namespace buoy {

namespace {

using Json = nlohmann::json;

constexpr uint64_t HEADER_MAX     = 100'000'000; // the format's own limit
constexpr size_t   NAME_BYTES_MAX = 1024;
constexpr size_t   DIMS_MAX       = 8;
constexpr size_t   TENSORS_MAX    = 1'000'000;

// Bits per element; 0 for a name the format does not have.
uint64_t dtype_bits(const std::string & dtype) {
    static const std::unordered_map<std::string, uint64_t> bits = {
        {"BOOL", 8}, {"U8", 8},   {"I8", 8},    {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"I16", 16},
        {"U16", 16}, {"F16", 16}, {"BF16", 16}, {"I32", 32},    {"U32", 32},    {"F32", 32},    {"C64", 64},
        {"F64", 64}, {"I64", 64}, {"U64", 64},  {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6},
    };
    const auto found = bits.find(dtype);
    return found == bits.end() ? 0 : found->second;
}

uint64_t read_uint(const Json & value, const std::string & where, const char * what) {
    if (!value.is_number_unsigned()) {
        fail(where, ": ", what, " is ", value.type_name(), ", expected an unsigned integer");
    }
    return value.get<uint64_t>();
}

uint64_t tensor_bytes(const SafetensorsTensor & tensor, const std::string & where) {
    const uint64_t bits_each = dtype_bits(tensor.dtype);
    if (bits_each == 0) {
        fail(where, ": unknown dtype ", in_quotes(tensor.dtype));
    }
    uint64_t bits = bits_each;
    for (const int64_t dim : tensor.shape) {
        const std::optional<uint64_t> product = checked_mul(bits, static_cast<uint64_t>(dim));
        if (!product) {
            fail(where, ": the shape's element count overflows");
        }
        bits = *product;
    }
    if (bits % 8 != 0) {
        fail(where, ": ", bits, " bits are not a whole number of bytes");
    }
    return bits / 8;
}

SafetensorsTensor parse_tensor(const std::string & name, const Json & entry, const std::string & path) {
    const std::string where = concat(path, ": tensor ", in_quotes(name));
    if (name.empty() || name.size() > NAME_BYTES_MAX) {
        fail(where, ": the name has ", name.size(), " bytes, expected 1 to ", NAME_BYTES_MAX);
    }
    if (!entry.is_object()) {
        fail(where, ": entry is ", entry.type_name(), ", expected an object");
    }
    for (const char * key : {"dtype", "shape", "data_offsets"}) {
        if (!entry.contains(key)) {
            fail(where, ": no '", key, "'");
        }
    }
    const Json & dtype   = entry["dtype"];
    const Json & shape   = entry["shape"];
    const Json & offsets = entry["data_offsets"];
    if (!dtype.is_string()) {
        fail(where, ": dtype is ", dtype.type_name(), ", expected a string");
    }
    if (!shape.is_array() || shape.size() > DIMS_MAX) {
        fail(where, ": shape is not a list of at most ", DIMS_MAX, " dimensions");
    }
    if (!offsets.is_array() || offsets.size() != 2) {
        fail(where, ": data_offsets is not a pair");
    }

    SafetensorsTensor tensor;
    tensor.name  = name;
    tensor.dtype = dtype.get<std::string>();
    for (const Json & dim : shape) {
        const uint64_t n = read_uint(dim, where, "dimension");
        if (n > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
            fail(where, ": dimension ", n, " is out of range");
        }
        tensor.shape.push_back(static_cast<int64_t>(n));
    }
    const uint64_t begin = read_uint(offsets[0], where, "data_offsets[0]");
    const uint64_t end   = read_uint(offsets[1], where, "data_offsets[1]");
    if (begin > end) {
        fail(where, ": data_offsets ", begin, " to ", end, " run backwards");
    }
    tensor.offset = begin;
    tensor.size   = end - begin;

    const uint64_t expected = tensor_bytes(tensor, where);
    if (expected != tensor.size) {
        fail(where, ": dtype and shape need ", expected, " bytes, data_offsets give ", tensor.size);
    }
    return tensor;
}

void check_tiling(std::vector<SafetensorsTensor> & tensors, uint64_t data_size, const std::string & path) {
    std::sort(tensors.begin(), tensors.end(), [](const SafetensorsTensor & a, const SafetensorsTensor & b) {
        return a.offset != b.offset ? a.offset < b.offset : a.size < b.size;
    });
    uint64_t at = 0;
    for (const SafetensorsTensor & tensor : tensors) {
        if (tensor.offset != at) {
            fail(path, ": tensor ", in_quotes(tensor.name), " begins at byte ", tensor.offset,
                 " of the data, expected ", at, tensor.offset < at ? " (overlap)" : " (hole)");
        }
        if (tensor.size > data_size - at) {
            fail(path, ": tensor ", in_quotes(tensor.name), " ends at byte ", at + tensor.size,
                 " of the data, the file has ", data_size);
        }
        at += tensor.size;
    }
    if (at != data_size) {
        fail(path, ": ", data_size - at, " trailing bytes after the last tensor");
    }
}

std::vector<SafetensorsTensor> parse_header(const MappedFile & file, const std::string & path) {
    unsigned char length[8];
    if (file.size() < sizeof(length)) {
        fail(path, ": ", file.size(), " bytes are too few for a safetensors file");
    }
    file.read(0, length, sizeof(length));
    uint64_t header_size = 0;
    for (int i = 7; i >= 0; --i) {
        header_size = header_size << 8 | length[i];
    }
    if (header_size > HEADER_MAX) {
        fail(path, ": header of ", header_size, " bytes, expected at most ", HEADER_MAX);
    }
    if (header_size > file.size() - sizeof(length)) {
        fail(path, ": header of ", header_size, " bytes, the file has ", file.size() - sizeof(length),
             " after its length");
    }
    std::string text(static_cast<size_t>(header_size), '\0');
    file.read(sizeof(length), text.data(), text.size());
    if (text.empty() || text[0] != '{') {
        fail(path, ": not a safetensors file: the header does not begin with '{'");
    }
    const Json header = parse_json(text, path, {.keys = JsonKeys::unique});
    if (header.size() > TENSORS_MAX) {
        fail(path, ": ", header.size(), " tensors, expected at most ", TENSORS_MAX);
    }

    std::vector<SafetensorsTensor> tensors;
    for (const auto & [name, entry] : header.items()) {
        if (name != "__metadata__") {
            tensors.push_back(parse_tensor(name, entry, path));
        }
    }
    const uint64_t data_first = sizeof(length) + header_size;
    check_tiling(tensors, file.size() - data_first, path);
    for (SafetensorsTensor & tensor : tensors) {
        tensor.offset += data_first;
    }
    return tensors;
}

// A shard is a plain file name beside the index, nothing else.
void check_shard_name(const std::string & shard, const std::string & index_path) {
    if (!is_file_name(shard)) {
        fail(index_path, ": shard ", in_quotes(shard), " is not a plain file name");
    }
}

std::vector<std::string> read_index(const std::string & index_path, std::set<std::string> & names) {
    const Json index = load_json(index_path);
    if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
        fail(index_path, ": no 'weight_map' object");
    }
    std::set<std::string> shards;
    for (const auto & [name, shard] : index["weight_map"].items()) {
        if (!shard.is_string()) {
            fail(index_path, ": the shard of tensor ", in_quotes(name), " is ", shard.type_name(),
                 ", expected a string");
        }
        check_shard_name(shard.get<std::string>(), index_path);
        shards.insert(shard.get<std::string>());
        names.insert(name);
    }
    if (shards.empty()) {
        fail(index_path, ": 'weight_map' is empty");
    }
    return {shards.begin(), shards.end()};
}

[[noreturn]] void fail_without_weights(const std::string & dir) {
    std::error_code error;
    for (const auto & entry : std::filesystem::directory_iterator(dir, error)) {
        const std::string suffix = entry.path().extension().string();
        if (suffix == ".bin" || suffix == ".pt" || suffix == ".pth") {
            fail(dir, ": the only weights are pickled (", entry.path().filename().string(),
                 "), and unpickling can run code; save the model as safetensors (save_pretrained(…, "
                 "safe_serialization=True)) and convert that");
        }
    }
    fail(dir, ": no model.safetensors and no model.safetensors.index.json");
}

} // namespace

int64_t SafetensorsTensor::n_elements() const {
    int64_t n = 1;
    for (const int64_t dim : shape) {
        n *= dim;
    }
    return n;
}

void Safetensors::add_file(const std::string & path) {
    auto file = std::make_shared<const MappedFile>(MappedFile::open(path));
    for (SafetensorsTensor & tensor : parse_header(*file, path)) {
        tensor.file = static_cast<int>(files_.size());
        if (!index_.emplace(tensor.name, tensors_.size()).second) {
            fail(path, ": tensor ", in_quotes(tensor.name), " is also in another shard");
        }
        tensors_.push_back(std::move(tensor));
    }
    paths_.push_back(path);
    files_.push_back(std::move(file));
}

Safetensors Safetensors::open_file(const std::string & path) {
    Safetensors checkpoint;
    checkpoint.add_file(path);
    return checkpoint;
}

Safetensors Safetensors::open_dir(const std::string & dir) {
    namespace fs = std::filesystem;

    const std::string single = (fs::path(dir) / "model.safetensors").string();
    const std::string index  = single + ".index.json";
    std::error_code   error;
    if (fs::exists(single, error)) {
        return open_file(single);
    }
    if (!fs::exists(index, error)) {
        fail_without_weights(dir);
    }

    std::set<std::string> names;
    Safetensors           checkpoint;
    for (const std::string & shard : read_index(index, names)) {
        const std::string path = (fs::path(dir) / shard).string();
        if (!fs::exists(path, error)) {
            fail(index, ": names the shard ", in_quotes(shard), ", which is missing");
        }
        checkpoint.add_file(path);
    }
    for (const std::string & name : names) {
        if (checkpoint.find(name) == nullptr) {
            fail(index, ": names tensor ", in_quotes(name), ", which no shard has");
        }
    }
    return checkpoint;
}

const SafetensorsTensor * Safetensors::find(const std::string & name) const {
    const auto found = index_.find(name);
    return found == index_.end() ? nullptr : &tensors_[found->second];
}

void Safetensors::read(const SafetensorsTensor & tensor, uint64_t first, void * out, size_t size) const {
    if (first > tensor.size || size > tensor.size - first) {
        fail(paths_.at(static_cast<size_t>(tensor.file)), ": read past the end of tensor ", in_quotes(tensor.name));
    }
    files_.at(static_cast<size_t>(tensor.file))->read(tensor.offset + first, out, size);
}

} // namespace buoy
