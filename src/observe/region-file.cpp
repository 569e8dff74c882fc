#include "buoy/message.h"
#include "buoy/regions.h"
#include "io/json-file.h"

#include <nlohmann/json.hpp>

#include <limits>
#include <set>

namespace buoy {

namespace {

constexpr size_t n_regions_max = 1024; // what recordings can have

int32_t index_of(const nlohmann::json & value, const std::string & where) {
    if (!value.is_number_integer() || value < 0 || value > std::numeric_limits<int32_t>::max()) {
        fail(where, ": ", in_quotes(value.dump()), " is not a position");
    }
    return value.get<int32_t>();
}

std::string text_of(const nlohmann::json & value, const std::string & where, const char * key) {
    if (!value.is_string() || value.get_ref<const std::string &>().empty()) {
        fail(where, ": ", key, " is not a non-empty string");
    }
    return value.get<std::string>();
}

// Names are words that an edit can use.
void check_name(const std::string & name, const std::string & where) {
    const bool word = name.find_first_of(" \t\r\n,=@:*\"'") == std::string::npos &&
                      name.find_first_of("0123456789+-") != 0 && name != "all" && name != "sinks" && name != "anchors";
    if (!word) {
        fail(where, ": the name ", in_quotes(name),
             " can't be used: a name must not begin with a digit or sign, contain a space or one of , = @ : *, or be "
             "a word that edits use");
    }
}

void parse_place(const nlohmann::json & json, const std::string & where, RegionSpec & spec) {
    if (json.contains("text")) {
        spec.text = text_of(json["text"], where, "text");
    }
    if (json.contains("role")) {
        spec.role = text_of(json["role"], where, "role");
        if (spec.role != "system" && spec.role != "user" && spec.role != "assistant") {
            fail(where, ": the role ", in_quotes(spec.role), " is not system, user or assistant");
        }
    }
    if (json.contains("tokens")) {
        const nlohmann::json & range = json["tokens"];
        if (!range.is_array() || range.size() != 2) {
            fail(where, ": tokens is not [FIRST, END]");
        }
        spec.first = index_of(range[0], where);
        spec.last  = index_of(range[1], where);
        if (spec.last <= spec.first) {
            fail(where, ": tokens ", spec.first, " to ", spec.last, " is an empty range");
        }
    }
    if (json.contains("occurrence")) {
        const nlohmann::json & which = json["occurrence"];
        spec.occurrence              = which == "all" ? 0 : index_of(which, where);
        if (spec.text.empty() || (spec.occurrence == 0 && which != "all")) {
            fail(where, ": occurrence needs a text, and is a number from 1 or \"all\"");
        }
    }
}

RegionSpec parse_region(const nlohmann::json & json, const std::string & file, size_t index) {
    if (!json.is_object() || !json.contains("name")) {
        fail(file, ": region ", index, " is not an object with a name");
    }
    RegionSpec spec;
    spec.name               = text_of(json["name"], concat(file, ": region ", index), "name");
    const std::string where = file + ": region " + in_quotes(spec.name);
    int               n     = 0;
    check_name(spec.name, where);
    for (const auto & [key, value] : json.items()) {
        const bool place = key == "text" || key == "tokens" || key == "role";
        n += place ? 1 : 0;
        if (!place && key != "name" && key != "occurrence") {
            fail(where, ": ", in_quotes(key), " is unknown, expected text, tokens, role or occurrence");
        }
    }
    if (n != 1) {
        fail(where, ": expected one of text, tokens and role, found ", n);
    }
    parse_place(json, where, spec);
    return spec;
}

} // namespace

std::vector<RegionSpec> load_regions(const std::string & path) {
    const std::string    file = printable(path);
    const nlohmann::json json = parse_json(load_text(path), file, {.keys = JsonKeys::unique});
    if (!json.is_object() || !json.contains("regions") || !json["regions"].is_array()) {
        fail(file, ": expected {\"regions\": [...]}");
    }
    std::vector<RegionSpec> specs;
    std::set<std::string>   names;
    for (const nlohmann::json & region : json["regions"]) {
        if (specs.size() == n_regions_max) {
            fail(file, ": more than ", n_regions_max, " regions");
        }
        specs.push_back(parse_region(region, file, specs.size()));
        if (!names.insert(specs.back().name).second) {
            fail(file, ": region ", in_quotes(specs.back().name), " appears twice");
        }
    }
    return specs;
}

} // namespace buoy
