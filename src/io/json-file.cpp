#include "io/json-file.h"

#include "buoy/message.h"
#include "buoy/printable.h"
#include "io/mapped-file.h"

#include <nlohmann/json.hpp>

#include <type_traits>
#include <vector>

namespace buoy {

namespace {

constexpr size_t   depth_max     = 64;
constexpr uint64_t file_size_max = 256ull << 20;

// What a hostile text can make us allocate beyond its own length: every value takes 16 bytes, strings, lists and objects have more
// elsewhere, and a member of an object is a node of a tree.
constexpr size_t value_size   = 16;
constexpr size_t outside_size = 48;
constexpr size_t member_size  = 96;

// Builds the value from the parser's events. nlohmann's own way to look at them, a callback, searches the surrounding list or object
// each time that a list or object ends.
template <typename Json> class Builder {
public:
    using number_integer_t  = typename Json::number_integer_t;
    using number_unsigned_t = typename Json::number_unsigned_t;
    using number_float_t    = typename Json::number_float_t;
    using string_t          = typename Json::string_t;
    using binary_t          = typename Json::binary_t;

    Builder(const std::string & where, const JsonRules & rules) : where_(where), rules_(rules) {}

    Json take() { return std::move(root_); }

    bool null() { return put(nullptr); }
    bool boolean(bool value) { return put(value); }
    bool number_integer(number_integer_t value) { return put(value); }
    bool number_unsigned(number_unsigned_t value) { return put(value); }
    bool number_float(number_float_t value, const string_t &) { return put(value); }
    bool binary(binary_t & value) { return put(std::move(value)); }

    bool string(string_t & value) {
        spend(outside_size);
        return put(std::move(value));
    }

    bool start_object(size_t) { return open(Json::value_t::object); }
    bool start_array(size_t) { return open(Json::value_t::array); }
    bool end_object() { return close(); }
    bool end_array() { return close(); }

    bool key(string_t & name) {
        spend(member_size);
        Json & object = *open_.back();
        if (object.size() >= rules_.members_max) {
            fail(where_, ": a JSON object with more than ", rules_.members_max, " members");
        }
        const size_t n_before = object.size();
        slot_                 = &object[name];
        if (rules_.keys == JsonKeys::unique && object.size() == n_before) {
            fail(where_, ": JSON key ", in_quotes(name), " appears twice");
        }
        return true;
    }

    bool parse_error(size_t, const std::string &, const nlohmann::detail::exception & error) {
        fail(where_, ": not valid JSON: ", printable(error.what(), 200));
    }

private:
    void spend(size_t n_bytes) {
        n_bytes_ += n_bytes;
        if (n_bytes_ > rules_.memory_max) {
            fail(where_, ": JSON with too many values: they need more than ", rules_.memory_max >> 20, " MiB");
        }
    }

    template <typename T> Json * place(T && value) {
        spend(value_size);
        if (open_.empty()) {
            root_ = std::forward<T>(value);
            return &root_;
        }
        Json & around = *open_.back();
        if (around.is_array()) {
            around.push_back(std::forward<T>(value));
            return &around.back();
        }
        *slot_ = std::forward<T>(value);
        return slot_;
    }

    template <typename T> bool put(T && value) {
        place(Json(std::forward<T>(value)));
        return true;
    }

    bool open(typename Json::value_t kind) {
        if (open_.size() >= depth_max) {
            fail(where_, ": JSON nested deeper than ", depth_max, " levels");
        }
        spend(outside_size);
        open_.push_back(place(Json(kind)));
        return true;
    }

    bool close() {
        open_.pop_back();
        return true;
    }

    const std::string & where_;
    const JsonRules &   rules_;
    Json                root_;
    std::vector<Json *> open_;              // the lists and objects around what comes next
    Json *              slot_    = nullptr; // of the last key
    size_t              n_bytes_ = 0;
};

template <typename Json> Json build(const std::string & text, const std::string & where, const JsonRules & rules) {
    Builder<Json> builder(where, rules);
    try {
        Json::sax_parse(text, &builder);
    } catch (const nlohmann::json::exception & error) {
        fail(where, ": not valid JSON: ", printable(error.what(), 200));
    }
    return builder.take();
}

} // namespace

nlohmann::json parse_json(const std::string & text, const std::string & where, const JsonRules & rules) {
    return build<nlohmann::json>(text, where, rules);
}

nlohmann::ordered_json parse_ordered_json(const std::string & text, const std::string & where) {
    return build<nlohmann::ordered_json>(text, where, {.members_max = json_members_few});
}

std::string load_text(const std::string & path) {
    const MappedFile file = MappedFile::open(path);
    if (file.size() > file_size_max) {
        fail(path, ": ", file.size(), " bytes, expected at most ", file_size_max);
    }
    std::string text(static_cast<size_t>(file.size()), '\0');
    file.read(0, text.data(), text.size());
    return text;
}

nlohmann::json load_json(const std::string & path) { return parse_json(load_text(path), path); }

std::string json_text(const nlohmann::ordered_json & json, int indent) {
    return printable_json(json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

std::string json_line(const nlohmann::ordered_json & json) { return json_text(json) + "\n"; }

} // namespace buoy
