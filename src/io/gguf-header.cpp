#include "io/gguf-header.h"

#include "base/checked.h"
#include "buoy/message.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <unordered_set>

namespace buoy {

namespace {

constexpr uint64_t header_size_max   = uint64_t{1} << 30; // far above any vocabulary, far below what hurts
constexpr uint64_t read_size_first   = uint64_t{1} << 16;
constexpr uint64_t key_length_max    = 65535; // by the GGUF specification
constexpr uint32_t alignment_default = 32;
constexpr int64_t  alignment_min     = 8;
constexpr int64_t  alignment_max     = int64_t{1} << 20;
constexpr uint64_t pair_size_min     = 8 + 1 + 4 + 1;     // key length, key, type, value
constexpr uint64_t tensor_size_min   = 8 + 1 + 4 + 4 + 8; // name length, name, dimension count, type, offset

// Reads the header from front to back into a buffer that never grows beyond what the file can back.
class HeaderReader {
public:
    HeaderReader(const MappedFile & file, int file_index)
        : file_(file), file_index_(file_index), header_{0, alignment_default, GgufValues(file.path()), {}} {}

    GgufHeader read();

private:
    template <typename... Args> [[noreturn]] void fail_here(const Args &... args) const {
        fail(printable(file_.path()), ": ", where_.empty() ? "" : where_ + ": ", args...);
    }

    uint64_t left() const { return file_.size() - position_; }

    const uint8_t *         take(uint64_t size);
    template <typename T> T take_number();
    std::string_view        take_string(const char * what, uint64_t length_max);
    void                    grow(uint64_t end);

    void      read_preamble();
    void      read_pair(uint64_t index);
    GgufValue read_value();
    void      skip_items(gguf_type type, uint64_t count);
    void      read_tensor(uint64_t index);
    void      read_dims(GgufTensor & tensor);
    void      read_type(GgufTensor & tensor);
    uint32_t  alignment() const;
    void      place_tensors();
    void      check_overlap() const;

    const MappedFile &              file_;
    int                             file_index_;
    std::vector<uint8_t>            bytes_;
    uint64_t                        position_ = 0;
    std::string                     where_; // what is being read, for messages
    uint64_t                        n_tensors_ = 0;
    uint64_t                        n_pairs_   = 0;
    std::unordered_set<std::string> tensor_names_;
    GgufHeader                      header_;
};

void HeaderReader::grow(uint64_t end) {
    if (end > header_size_max) {
        fail_here("the header is longer than ", header_size_max, " bytes");
    }
    const uint64_t filled = bytes_.size();
    const uint64_t wanted = std::min({file_.size(), header_size_max, std::max({end, filled * 2, read_size_first})});
    try {
        bytes_.resize(static_cast<size_t>(wanted));
    } catch (const std::bad_alloc &) {
        fail_runtime(printable(file_.path()), ": out of memory, the header needs ", wanted, " bytes");
    }
    file_.read(filled, bytes_.data() + filled, static_cast<size_t>(wanted - filled));
}

const uint8_t * HeaderReader::take(uint64_t size) {
    if (size > left()) {
        fail_here("the file is truncated: expected ", size, " more bytes at offset ", position_, ", found ", left());
    }
    if (size > bytes_.size() - position_) {
        grow(position_ + size);
    }
    const uint8_t * data = bytes_.data() + position_;
    position_ += size;
    return data;
}

template <typename T> T HeaderReader::take_number() {
    T number;
    std::memcpy(&number, take(sizeof(number)), sizeof(number));
    return number;
}

std::string_view HeaderReader::take_string(const char * what, uint64_t length_max) {
    const auto length = take_number<uint64_t>();
    if (length > left()) {
        fail_here(what, " of ", length, " bytes, but only ", left(), " are left in the file");
    }
    if (length > length_max) {
        fail_here(what, " of ", length, " bytes, expected at most ", length_max);
    }
    return {reinterpret_cast<const char *>(take(length)), static_cast<size_t>(length)};
}

void HeaderReader::read_preamble() {
    char magic[4];
    std::memcpy(magic, take(sizeof(magic)), sizeof(magic));
    if (std::memcmp(magic, "GGUF", sizeof(magic)) != 0) {
        fail_here("not a GGUF file: expected magic 'GGUF', found ", in_quotes({magic, sizeof(magic)}));
    }
    header_.version = take_number<uint32_t>();
    if (header_.version != 0 && (header_.version & 0xffff) == 0) {
        fail_here("this is a big-endian GGUF file, only little-endian ones are supported (version field ",
                  header_.version, ")");
    }
    if (header_.version != 2 && header_.version != 3) {
        fail_here("expected GGUF version 2 or 3, found ", header_.version);
    }
    n_tensors_ = take_number<uint64_t>();
    n_pairs_   = take_number<uint64_t>();
    if (n_pairs_ > left() / pair_size_min) {
        fail_here("the header claims ", n_pairs_, " keys, the file has room for at most ", left() / pair_size_min);
    }
    if (n_tensors_ > left() / tensor_size_min) {
        fail_here("the header claims ", n_tensors_, " tensors, the file has room for at most ",
                  left() / tensor_size_min);
    }
}

void HeaderReader::skip_items(gguf_type type, uint64_t count) {
    const uint64_t size      = gguf_item_size(type);
    const uint64_t room      = left();
    const uint64_t count_max = room / (size == 0 ? sizeof(uint64_t) : size); // a string is at least its length
    if (count > count_max) {
        fail_here("expected ", count, " items of type ", gguf_type_name(type), ", but only ", room,
                  " bytes are left in the file");
    }
    if (type == GGUF_TYPE_STRING) {
        for (uint64_t i = 0; i < count; ++i) {
            take_string("a string", header_size_max);
        }
        return;
    }
    const uint8_t * items = take(count * size);
    if (type == GGUF_TYPE_BOOL) {
        for (uint64_t i = 0; i < count; ++i) {
            if (items[i] > 1) {
                fail_here("expected a bool, 0 or 1, found ", static_cast<int>(items[i]));
            }
        }
    }
}

GgufValue HeaderReader::read_value() {
    auto       type     = take_number<uint32_t>();
    const bool is_array = type == GGUF_TYPE_ARRAY;
    uint64_t   count    = 1;
    if (is_array) {
        type  = take_number<uint32_t>();
        count = take_number<uint64_t>();
        if (type == GGUF_TYPE_ARRAY) {
            fail_here("arrays of arrays are not supported");
        }
    }
    if (type >= GGUF_TYPE_COUNT) {
        fail_here("expected a value type below ", static_cast<int>(GGUF_TYPE_COUNT), ", found ", type);
    }
    const GgufValue value{static_cast<gguf_type>(type), is_array, count, position_};
    skip_items(value.item, count);
    return value;
}

void HeaderReader::read_pair(uint64_t index) {
    where_ = concat("key ", index, " of ", n_pairs_);
    const std::string key(take_string("a name", key_length_max));
    if (key.empty()) {
        fail_here("the key is empty");
    }
    where_ = "key " + in_quotes(key);
    if (!header_.values.add(key, read_value())) {
        fail_here("the key appears twice");
    }
}

void HeaderReader::read_dims(GgufTensor & tensor) {
    const auto n_dims = take_number<uint32_t>();
    if (n_dims > tensor.ne.size()) {
        fail_here("expected at most ", tensor.ne.size(), " dimensions, found ", n_dims);
    }
    tensor.n_dims = static_cast<int>(std::max(n_dims, 1u)); // a scalar is a row of one
    tensor.ne.fill(1);
    uint64_t n_elements = 1;
    for (uint32_t i = 0; i < n_dims; ++i) {
        tensor.ne[i] = take_number<int64_t>();
        if (tensor.ne[i] <= 0) {
            fail_here("dimension ", i, ": expected at least 1, found ", tensor.ne[i]);
        }
        const auto product = checked_mul(n_elements, static_cast<uint64_t>(tensor.ne[i]));
        if (!product || *product > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
            fail_here("the number of elements overflows at dimension ", i, " of ", tensor.ne[i]);
        }
        n_elements = *product;
    }
}

void HeaderReader::read_type(GgufTensor & tensor) {
    const auto type = take_number<uint32_t>();
    if (type >= GGML_TYPE_COUNT) {
        fail_here("expected a tensor type below ", static_cast<int>(GGML_TYPE_COUNT), ", found ", type);
    }
    tensor.type              = static_cast<ggml_type>(type);
    const int64_t block      = ggml_blck_size(tensor.type);
    const size_t  block_size = ggml_type_size(tensor.type);
    if (block <= 0 || block_size == 0) {
        fail_here("tensor type ", type, " was removed from ggml, convert the model again");
    }
    if (tensor.ne[0] % block != 0) {
        fail_here("type ", ggml_type_name(tensor.type), " needs rows of a multiple of ", block, ", found ",
                  tensor.ne[0]);
    }
    // read_dims() has bounded the product, only the bytes per block can still overflow
    uint64_t n_blocks = static_cast<uint64_t>(tensor.ne[0] / block);
    for (size_t i = 1; i < tensor.ne.size(); ++i) {
        n_blocks *= static_cast<uint64_t>(tensor.ne[i]);
    }
    const auto size = checked_mul(n_blocks, block_size);
    if (!size) {
        fail_here("the size in bytes overflows: ", n_blocks, " blocks of ", block_size);
    }
    tensor.size = *size;
}

void HeaderReader::read_tensor(uint64_t index) {
    where_ = concat("tensor ", index, " of ", n_tensors_);
    GgufTensor tensor;
    tensor.name = take_string("a name", GGML_MAX_NAME - 1);
    if (tensor.name.empty()) {
        fail_here("the name is empty");
    }
    where_ = "tensor " + in_quotes(tensor.name);
    if (tensor.name.find('\0') != std::string::npos) {
        fail_here("the name contains a zero byte");
    }
    if (!tensor_names_.insert(tensor.name).second) {
        fail_here("the tensor appears twice");
    }
    read_dims(tensor);
    read_type(tensor);
    tensor.offset = take_number<uint64_t>(); // relative to the data, see place_tensors()
    tensor.file   = file_index_;
    header_.tensors.push_back(std::move(tensor));
}

uint32_t HeaderReader::alignment() const {
    const auto value = header_.values.get_int(GGUF_KEY_GENERAL_ALIGNMENT);
    if (!value) {
        return alignment_default;
    }
    if (*value < alignment_min || *value > alignment_max || (*value & (*value - 1)) != 0) {
        header_.values.fail_key(GGUF_KEY_GENERAL_ALIGNMENT, concat("expected a power of two from ", alignment_min,
                                                                   " to ", alignment_max, ", found ", *value));
    }
    return static_cast<uint32_t>(*value);
}

void HeaderReader::place_tensors() {
    const auto data = checked_pad(position_, header_.alignment);
    for (GgufTensor & tensor : header_.tensors) {
        where_ = "tensor " + in_quotes(tensor.name);
        if (tensor.offset % header_.alignment != 0) {
            fail_here("expected an offset that is a multiple of ", header_.alignment, ", found ", tensor.offset);
        }
        const auto begin = data ? checked_add(*data, tensor.offset) : data;
        const auto end   = begin ? checked_add(*begin, tensor.size) : begin;
        const auto pad   = end ? checked_pad(*end, header_.alignment) : end;
        if (!pad) {
            fail_here("offset ", tensor.offset, " plus ", tensor.size, " bytes overflows");
        }
        if (*end > file_.size()) {
            fail_here("the file is truncated: expected the data to end at ", *end, ", the file has ", file_.size(),
                      " bytes");
        }
        // Some writers leave the last padding out, none writes a part of it.
        if (*end < file_.size() && *pad > file_.size()) {
            fail_here("the file is truncated: expected padding up to ", *pad, ", the file has ", file_.size(),
                      " bytes");
        }
        tensor.offset = *begin;
    }
    where_.clear();
}

void HeaderReader::check_overlap() const {
    std::vector<const GgufTensor *> order;
    order.reserve(header_.tensors.size());
    for (const GgufTensor & tensor : header_.tensors) {
        order.push_back(&tensor);
    }
    std::sort(order.begin(), order.end(),
              [](const GgufTensor * a, const GgufTensor * b) { return a->offset < b->offset; });
    for (size_t i = 1; i < order.size(); ++i) {
        const uint64_t end = order[i - 1]->offset + order[i - 1]->size;
        if (order[i]->offset < end) {
            fail_here("tensor ", in_quotes(order[i]->name), ": starts at ", order[i]->offset, " and overlaps ",
                      in_quotes(order[i - 1]->name), ", which ends at ", end);
        }
    }
}

GgufHeader HeaderReader::read() {
    read_preamble();
    for (uint64_t i = 0; i < n_pairs_; ++i) {
        read_pair(i);
    }
    where_.clear();
    const uint64_t pairs_end = position_;
    for (uint64_t i = 0; i < n_tensors_; ++i) {
        read_tensor(i);
    }
    where_.clear();

    bytes_.resize(static_cast<size_t>(pairs_end));
    bytes_.shrink_to_fit();
    header_.values.set_bytes(std::move(bytes_));
    header_.alignment = alignment();
    place_tensors();
    check_overlap();
    return std::move(header_);
}

} // namespace

GgufHeader read_gguf_header(const MappedFile & file, int file_index) { return HeaderReader(file, file_index).read(); }

} // namespace buoy
