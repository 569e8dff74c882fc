#include "analysis/meta-reader.h"

#include "buoy/message.h"
#include "io/json-file.h"

#include <algorithm>
#include <limits>
#include <optional>

namespace buoy::analysis {

namespace {

constexpr size_t n_regions_max = 1024; // tables and matrices have as many rows

std::optional<int32_t> int32_of(const nlohmann::json & value) {
    if (!value.is_number_integer() || value < std::numeric_limits<int32_t>::min() ||
        value > std::numeric_limits<int32_t>::max()) {
        return std::nullopt;
    }
    return value.get<int32_t>();
}

} // namespace

nlohmann::json read_meta_json(const NpzReader & file, const NpzMember & member) {
    return parse_json(file.read_text(member), printable(file.path()) + ": meta.json",
                      {.members_max = json_members_few, .memory_max = 128u << 20});
}

std::string MetaReader::name(Keys keys) const {
    std::string out;
    for (const char * key : keys) {
        out += (out.empty() ? "" : ".") + std::string(key);
    }
    return out;
}

const nlohmann::json * MetaReader::find(Keys keys) const {
    const nlohmann::json * at = &json_;
    for (const char * key : keys) {
        if (!at->is_object()) {
            return nullptr;
        }
        const auto found = at->find(key);
        if (found == at->end()) {
            return nullptr;
        }
        at = &*found;
    }
    return at;
}

const nlohmann::json & MetaReader::get(Keys keys) const {
    const nlohmann::json * value = find(keys);
    if (value == nullptr) {
        fail(where_, ": no ", name(keys));
    }
    return *value;
}

void MetaReader::wrong(Keys keys, const char * expected) const {
    fail(where_, ": ", name(keys), " is ", in_quotes(get(keys).dump(-1, ' ', true)), ", expected ", expected);
}

bool MetaReader::has(Keys keys) const {
    const nlohmann::json * value = find(keys);
    return value != nullptr && !value->is_null();
}

std::string MetaReader::text(Keys keys) const {
    const nlohmann::json & value = get(keys);
    if (!value.is_string()) {
        wrong(keys, "a string");
    }
    return value.get<std::string>();
}

bool MetaReader::boolean(Keys keys) const {
    const nlohmann::json & value = get(keys);
    if (!value.is_boolean()) {
        wrong(keys, "true or false");
    }
    return value.get<bool>();
}

int32_t MetaReader::integer(Keys keys) const {
    const auto number = int32_of(get(keys));
    if (!number) {
        wrong(keys, "a whole number");
    }
    return *number;
}

size_t MetaReader::count(Keys keys) const {
    const int32_t number = integer(keys);
    if (number < 0) {
        wrong(keys, "a number that is not negative");
    }
    return static_cast<size_t>(number);
}

std::vector<int32_t> MetaReader::integers(Keys keys) const {
    const nlohmann::json & list = get(keys);
    std::vector<int32_t>   out;
    for (const nlohmann::json & value : list) {
        const auto number = int32_of(value);
        if (!list.is_array() || !number) {
            wrong(keys, "a list of whole numbers");
        }
        out.push_back(*number);
    }
    return out;
}

std::vector<std::string> MetaReader::texts(Keys keys) const {
    const nlohmann::json &   list = get(keys);
    std::vector<std::string> out;
    for (const nlohmann::json & value : list) {
        if (!list.is_array() || !value.is_string()) {
            wrong(keys, "a list of strings");
        }
        out.push_back(value.get<std::string>());
    }
    return out;
}

std::vector<Region> MetaReader::regions(size_t n_positions) const {
    std::vector<Region> out;
    for (const nlohmann::json & json : get({"regions"})) {
        if (!json.is_object() || !json.contains("name") || !json["name"].is_string() || !json.contains("spans")) {
            wrong({"regions"}, "a list of {name, spans}");
        }
        if (out.size() == n_regions_max) {
            fail(where_, ": more than ", n_regions_max, " regions");
        }
        Region region{json["name"].get<std::string>(), {}};
        for (const nlohmann::json & span : json["spans"]) {
            const auto first = span.is_array() && span.size() == 2 ? int32_of(span[0]) : std::nullopt;
            const auto last  = first ? int32_of(span[1]) : std::nullopt;
            if (!last || *first < 0 || *last < *first) {
                fail(where_, ": region ", in_quotes(region.name), ": ", in_quotes(span.dump(-1, ' ', true)),
                     " is not a span of positions");
            }
            const auto end = static_cast<int32_t>(n_positions); // an answer may have ended before all its room was used
            region.spans.emplace_back(std::min(*first, end), std::min(*last, end));
        }
        out.push_back(std::move(region));
    }
    return out;
}

} // namespace buoy::analysis
