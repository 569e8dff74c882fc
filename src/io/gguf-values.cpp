#include "io/gguf-values.h"

#include "buoy/message.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace buoy {

namespace {

bool is_int(gguf_type type) {
    switch (type) {
        case GGUF_TYPE_UINT8:
        case GGUF_TYPE_INT8:
        case GGUF_TYPE_UINT16:
        case GGUF_TYPE_INT16:
        case GGUF_TYPE_UINT32:
        case GGUF_TYPE_INT32:
        case GGUF_TYPE_UINT64:
        case GGUF_TYPE_INT64: return true;
        default: return false;
    }
}

bool is_float(gguf_type type) { return type == GGUF_TYPE_FLOAT32 || type == GGUF_TYPE_FLOAT64; }
bool is_bool(gguf_type type) { return type == GGUF_TYPE_BOOL; }
bool is_string(gguf_type type) { return type == GGUF_TYPE_STRING; }
bool is_any(gguf_type) { return true; }

} // namespace

uint64_t gguf_item_size(gguf_type type) {
    switch (type) {
        case GGUF_TYPE_UINT8:
        case GGUF_TYPE_INT8:
        case GGUF_TYPE_BOOL: return 1;
        case GGUF_TYPE_UINT16:
        case GGUF_TYPE_INT16: return 2;
        case GGUF_TYPE_UINT32:
        case GGUF_TYPE_INT32:
        case GGUF_TYPE_FLOAT32: return 4;
        case GGUF_TYPE_UINT64:
        case GGUF_TYPE_INT64:
        case GGUF_TYPE_FLOAT64: return 8;
        default: return 0;
    }
}

bool GgufValues::add(const std::string & key, const GgufValue & value) {
    if (!values_.emplace(key, value).second) {
        return false;
    }
    keys_.push_back(key);
    return true;
}

const GgufValue * GgufValues::find(const std::string & key) const {
    const auto found = values_.find(key);
    return found == values_.end() ? nullptr : &found->second;
}

void GgufValues::fail_key(const std::string & key, const std::string & problem) const {
    fail(printable(path_), ": key ", in_quotes(key), ": ", problem);
}

const GgufValue * GgufValues::find_as(const std::string & key, const char * expected, bool is_array,
                                      bool (*accepts)(gguf_type)) const {
    const GgufValue * value = find(key);
    if (value != nullptr && (value->is_array != is_array || !accepts(value->item))) {
        fail_key(key, concat("expected ", expected, ", found ", value->is_array ? "an array of " : "",
                             gguf_type_name(value->item)));
    }
    return value;
}

template <typename T> T GgufValues::number_at(uint64_t offset) const {
    T number;
    std::memcpy(&number, bytes_.data() + offset, sizeof(number));
    return number;
}

int64_t GgufValues::int_at(const std::string & key, gguf_type type, uint64_t offset) const {
    switch (type) {
        case GGUF_TYPE_UINT8: return number_at<uint8_t>(offset);
        case GGUF_TYPE_INT8: return number_at<int8_t>(offset);
        case GGUF_TYPE_UINT16: return number_at<uint16_t>(offset);
        case GGUF_TYPE_INT16: return number_at<int16_t>(offset);
        case GGUF_TYPE_UINT32: return number_at<uint32_t>(offset);
        case GGUF_TYPE_INT32: return number_at<int32_t>(offset);
        case GGUF_TYPE_INT64: return number_at<int64_t>(offset);
        default: break;
    }
    const auto number = number_at<uint64_t>(offset);
    if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        fail_key(key, concat("expected an integer below 2^63, found ", number));
    }
    return static_cast<int64_t>(number);
}

double GgufValues::float_at(gguf_type type, uint64_t offset) const {
    return type == GGUF_TYPE_FLOAT32 ? static_cast<double>(number_at<float>(offset)) : number_at<double>(offset);
}

std::string_view GgufValues::string_at(uint64_t offset) const {
    const auto size = static_cast<size_t>(number_at<uint64_t>(offset));
    return {reinterpret_cast<const char *>(bytes_.data()) + offset + sizeof(uint64_t), size};
}

std::optional<int64_t> GgufValues::get_int(const std::string & key) const {
    const GgufValue * value = find_as(key, "an integer", false, is_int);
    return value == nullptr ? std::nullopt : std::optional(int_at(key, value->item, value->offset));
}

std::optional<double> GgufValues::get_float(const std::string & key) const {
    const GgufValue * value = find_as(key, "a floating-point number", false, is_float);
    if (value == nullptr) {
        return std::nullopt;
    }
    const double number = float_at(value->item, value->offset);
    if (!std::isfinite(number)) {
        fail_key(key, concat("expected a finite number, found ", number));
    }
    return number;
}

std::optional<bool> GgufValues::get_bool(const std::string & key) const {
    const GgufValue * value = find_as(key, "a bool", false, is_bool);
    return value == nullptr ? std::nullopt : std::optional(number_at<uint8_t>(value->offset) != 0);
}

std::optional<std::string> GgufValues::get_string(const std::string & key) const {
    const GgufValue * value = find_as(key, "a string", false, is_string);
    return value == nullptr ? std::nullopt : std::optional(std::string(string_at(value->offset)));
}

std::optional<std::vector<bool>> GgufValues::get_bool_array(const std::string & key) const {
    const GgufValue * value = find_as(key, "an array of bools", true, is_bool);
    if (value == nullptr) {
        return std::nullopt;
    }
    std::vector<bool> items(static_cast<size_t>(value->count));
    for (size_t i = 0; i < items.size(); ++i) {
        items[i] = number_at<uint8_t>(value->offset + i) != 0;
    }
    return items;
}

std::optional<std::vector<int64_t>> GgufValues::get_int_array(const std::string & key) const {
    const GgufValue * value = find_as(key, "an array of integers", true, is_int);
    if (value == nullptr) {
        return std::nullopt;
    }
    std::vector<int64_t> items(static_cast<size_t>(value->count));
    for (size_t i = 0; i < items.size(); ++i) {
        items[i] = int_at(key, value->item, value->offset + i * gguf_item_size(value->item));
    }
    return items;
}

std::optional<std::vector<double>> GgufValues::get_float_array(const std::string & key) const {
    const GgufValue * value = find_as(key, "an array of floating-point numbers", true, is_float);
    if (value == nullptr) {
        return std::nullopt;
    }
    std::vector<double> items(static_cast<size_t>(value->count));
    for (size_t i = 0; i < items.size(); ++i) {
        items[i] = float_at(value->item, value->offset + i * gguf_item_size(value->item));
    }
    return items;
}

std::optional<std::vector<std::string>> GgufValues::get_string_array(const std::string & key) const {
    const GgufValue * value = find_as(key, "an array of strings", true, is_string);
    if (value == nullptr) {
        return std::nullopt;
    }
    std::vector<std::string> items;
    items.reserve(static_cast<size_t>(value->count));
    uint64_t offset = value->offset;
    for (uint64_t i = 0; i < value->count; ++i) {
        items.emplace_back(string_at(offset));
        offset += sizeof(uint64_t) + items.back().size();
    }
    return items;
}

std::optional<uint64_t> GgufValues::array_size(const std::string & key) const {
    const GgufValue * value = find_as(key, "an array", true, is_any);
    return value == nullptr ? std::nullopt : std::optional(value->count);
}

} // namespace buoy
