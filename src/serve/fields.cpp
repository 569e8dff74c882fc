#include "serve/fields.h"

#include "buoy/message.h"
#include "serve/http.h"

#include <algorithm>
#include <cmath>

namespace buoy::serve {

std::string shown(const nlohmann::json & value) {
    return in_quotes(value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace), 60);
}

Fields::Fields(const nlohmann::json & object, std::string name) : object_(object), name_(std::move(name)) {
    if (!object.is_object()) {
        throw HttpError({.message = concat(name_.empty() ? "the request body" : name_, " must be a JSON object, not ",
                                           shown(object)),
                         .param   = name_});
    }
}

void Fields::refuse(const std::string & field, const std::string & because) const {
    throw HttpError({.message = concat(path(field), " ", because), .param = path(field)});
}

const nlohmann::json * Fields::find(const std::string & field) const {
    const auto found = object_.find(field);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<bool> Fields::flag(const std::string & field) const {
    const nlohmann::json * value = find(field);
    if (value == nullptr) {
        return {};
    }
    if (!value->is_boolean()) {
        refuse(field, concat("must be true or false, not ", shown(*value)));
    }
    return value->get<bool>();
}

std::optional<std::string> Fields::text(const std::string & field) const {
    const nlohmann::json * value = find(field);
    if (value == nullptr) {
        return {};
    }
    if (!value->is_string()) {
        refuse(field, concat("must be a string, not ", shown(*value)));
    }
    return value->get<std::string>();
}

std::optional<int64_t> Fields::whole(const std::string & field, int64_t low, int64_t high) const {
    const nlohmann::json * value = find(field);
    if (value == nullptr) {
        return {};
    }
    // 3.0 is a whole number too; what is beyond 2^53 has no exact double
    double number = std::nan("");
    if (value->is_number()) {
        number = value->get<double>();
    }
    const bool is_whole = value->is_number_integer() || std::trunc(number) == number;
    if (!is_whole || !(number >= static_cast<double>(low) && number <= static_cast<double>(high))) {
        refuse(field, concat("must be a whole number from ", low, " to ", high, ", not ", shown(*value)));
    }
    const int64_t exact = value->is_number_integer() ? value->get<int64_t>() : static_cast<int64_t>(number);
    return std::clamp(exact, low, high);
}

std::optional<float> Fields::number(const std::string & field, double low, double high) const {
    const nlohmann::json * value = find(field);
    if (value == nullptr) {
        return {};
    }
    const double number = value->is_number() ? value->get<double>() : std::nan("");
    if (!(number >= low && number <= high)) {
        refuse(field, concat("must be a number from ", low, " to ", high, ", not ", shown(*value)));
    }
    return static_cast<float>(number);
}

std::optional<Fields> Fields::object(const std::string & field) const {
    const nlohmann::json * value = find(field);
    return value == nullptr ? std::nullopt : std::optional<Fields>(std::in_place, *value, path(field));
}

std::optional<std::vector<std::string>> Fields::texts(const std::string & field) const {
    const nlohmann::json * value = find(field);
    if (value == nullptr) {
        return {};
    }
    if (value->is_string()) {
        return std::vector<std::string>{value->get<std::string>()};
    }
    const bool is_list = value->is_array() && std::all_of(value->begin(), value->end(),
                                                          [](const nlohmann::json & one) { return one.is_string(); });
    if (!is_list) {
        refuse(field, concat("must be a string or a list of strings, not ", shown(*value)));
    }
    return value->get<std::vector<std::string>>();
}

std::vector<int32_t> Fields::tokens(const std::string & field, const nlohmann::json & list, int32_t n_vocab) const {
    std::vector<int32_t> ids;
    for (const nlohmann::json & one : list) {
        const double id = one.is_number_integer() ? one.get<double>() : -1.0;
        if (!(id >= 0.0 && id < static_cast<double>(n_vocab))) {
            refuse(field, concat("holds ", shown(one), ", which is not a token; ids go from 0 to ", n_vocab - 1));
        }
        ids.push_back(static_cast<int32_t>(id));
    }
    return ids;
}

void Fields::check_known(const std::vector<std::string> & fields) const {
    for (const auto & [name, value] : object_.items()) {
        if (std::find(fields.begin(), fields.end(), name) == fields.end()) {
            std::string known;
            for (const std::string & field : fields) {
                known += (known.empty() ? "" : ", ") + field;
            }
            refuse(printable(name, 60), "is not a known setting; the settings are " + known);
        }
    }
}

} // namespace buoy::serve
