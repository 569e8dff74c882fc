#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include <ggml.h>
#include <gguf.h>

namespace buoy::test {

// The bytes of a number as a GGUF file has them.
template <typename T> std::string le(T number) {
    std::string bytes(sizeof(number), '\0');
    std::memcpy(bytes.data(), &number, sizeof(number));
    return bytes;
}

// A length and the text; the length may lie.
std::string gguf_string(const std::string & text, std::optional<uint64_t> length = std::nullopt);

// A GGUF file as a list of fields, each of which can be made wrong. What is not set is what a correct file would have.
struct GgufBytes {
    struct Pair {
        std::string             key;
        uint32_t                type = 0;
        std::string             value;
        std::optional<uint64_t> key_length;
    };

    struct Tensor {
        std::string             name;
        std::vector<int64_t>    dims;
        uint32_t                type = GGML_TYPE_F32;
        std::string             data;
        std::optional<uint64_t> offset;
        std::optional<uint64_t> name_length;
        std::optional<uint32_t> n_dims;
    };

    std::string             magic   = "GGUF";
    uint32_t                version = 3;
    std::optional<uint64_t> n_tensors;
    std::optional<uint64_t> n_pairs;
    std::vector<Pair>       pairs;
    std::vector<Tensor>     tensors;
    uint64_t                alignment = 32; // of the bytes; the key general.alignment is a pair like any other

    template <typename T> GgufBytes & number(const std::string & key, gguf_type type, T value) {
        pairs.push_back({key, static_cast<uint32_t>(type), le(value), std::nullopt});
        return *this;
    }
    GgufBytes & u32(const std::string & key, uint32_t value) { return number(key, GGUF_TYPE_UINT32, value); }
    GgufBytes & f32(const std::string & key, float value) { return number(key, GGUF_TYPE_FLOAT32, value); }
    GgufBytes & text(const std::string & key, const std::string & value);
    GgufBytes & texts(const std::string & key, const std::vector<std::string> & values);
    GgufBytes & array(const std::string & key, uint32_t item_type, uint64_t count, const std::string & items);
    // Data of the right size, filled with a pattern.
    GgufBytes & tensor(const std::string & name, ggml_type type, const std::vector<int64_t> & dims);

    std::string header() const; // without padding and data
    std::string build() const;

    // Where a broken file is made from a good one.
    Pair &   pair(const std::string & key);
    Tensor & tensor(const std::string & name);
    void     erase_pair(const std::string & key);
    void     erase_tensor(const std::string & name);
};

// The fields of a correct file.
GgufBytes parse_gguf(const std::string & bytes);

// A small correct file with every value type, arrays of each kind and tensors of three types. It ends with the last
// byte of its last tensor.
GgufBytes gguf_sample();

// Writes dir/name and returns its path.
std::string write_file(const std::string & dir, const std::string & name, const std::string & bytes);

} // namespace buoy::test
