#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace buoy::serve {

// The fields of a JSON object from a client. null is a field that is not there. Throws HttpError naming the field, what was expected and
// what was found.
class Fields {
public:
    // name: of the object, inside the body; empty: the body itself
    explicit Fields(const nlohmann::json & object, std::string name = "");

    bool                   has(const std::string & field) const { return find(field) != nullptr; }
    const nlohmann::json * find(const std::string & field) const; // null where it is not there

    std::optional<bool>                     flag(const std::string & field) const;
    std::optional<std::string>              text(const std::string & field) const;
    std::optional<int64_t>                  whole(const std::string & field, int64_t low, int64_t high) const;
    std::optional<float>                    number(const std::string & field, double low, double high) const;
    std::optional<Fields>                   object(const std::string & field) const;
    std::optional<std::vector<std::string>> texts(const std::string & field) const; // a text, or a list of them

    // The tokens of a list that a field has, which must be below n_vocab.
    std::vector<int32_t> tokens(const std::string & field, const nlohmann::json & list, int32_t n_vocab) const;

    // Refuses what is not among them.
    void check_known(const std::vector<std::string> & fields) const;

    // Throws: the field is wrong, because.
    [[noreturn]] void refuse(const std::string & field, const std::string & because) const;

    const nlohmann::json & json() const { return object_; }

private:
    std::string path(const std::string & field) const { return name_.empty() ? field : name_ + "." + field; }

    const nlohmann::json & object_;
    std::string            name_;
};

// A value as a message shows it.
std::string shown(const nlohmann::json & value);

} // namespace buoy::serve
