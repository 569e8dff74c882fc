#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <gguf.h>

namespace buoy {

// Where a value lies in the metadata bytes. A scalar is one item.
struct GgufValue {
    gguf_type item;
    bool      is_array;
    uint64_t  count;
    uint64_t  offset; // of the first item
};

// The key-value pairs of one file. The bytes stay as they are in the file and are decoded when asked for, so that a
// vocabulary costs no allocation per token. Whoever adds a value has checked that all its items lie inside the bytes.
class GgufValues {
public:
    explicit GgufValues(std::string path) : path_(std::move(path)) {}

    // False if the key exists already.
    bool add(const std::string & key, const GgufValue & value);
    void set_bytes(std::vector<uint8_t> bytes) { bytes_ = std::move(bytes); }

    const std::string &              path() const { return path_; }
    const std::vector<std::string> & keys() const { return keys_; }
    const GgufValue *                find(const std::string & key) const;

    // No value if the key is missing; an Error if it has another type or does not fit.
    std::optional<int64_t>     get_int(const std::string & key) const;
    std::optional<double>      get_float(const std::string & key) const; // finite
    std::optional<bool>        get_bool(const std::string & key) const;
    std::optional<std::string> get_string(const std::string & key) const;

    std::optional<std::vector<bool>>        get_bool_array(const std::string & key) const;
    std::optional<std::vector<int64_t>>     get_int_array(const std::string & key) const;
    std::optional<std::vector<double>>      get_float_array(const std::string & key) const;
    std::optional<std::vector<std::string>> get_string_array(const std::string & key) const;
    std::optional<uint64_t>                 array_size(const std::string & key) const;

    [[noreturn]] void fail_key(const std::string & key, const std::string & problem) const;

private:
    const GgufValue * find_as(const std::string & key, const char * expected, bool is_array,
                              bool (*accepts)(gguf_type)) const;
    int64_t           int_at(const std::string & key, gguf_type type, uint64_t offset) const;
    double            float_at(gguf_type type, uint64_t offset) const;
    std::string_view  string_at(uint64_t offset) const;

    template <typename T> T number_at(uint64_t offset) const;

    std::string                                path_;
    std::vector<uint8_t>                       bytes_;
    std::vector<std::string>                   keys_;
    std::unordered_map<std::string, GgufValue> values_;
};

// Bytes of one item; 0 for strings and arrays, which have no fixed size.
uint64_t gguf_item_size(gguf_type type);

} // namespace buoy
