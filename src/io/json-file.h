#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <string>

namespace buoy {

enum class JsonKeys { last_wins, unique };

struct JsonRules {
    JsonKeys keys        = JsonKeys::last_wins;
    size_t   members_max = 4'000'000;  // of one object
    size_t   memory_max  = 512u << 20; // bytes that the values take beyond the text
};

// For objects that become ordered ones, where a key is looked for among all others.
inline constexpr size_t json_members_few = 1000;

// Parses text that nobody vouches for, the only way in: nesting, memory and members are limited, the time is proportional to the length,
// and every problem is an Error that begins with `where`.
nlohmann::json         parse_json(const std::string & text, const std::string & where, const JsonRules & rules = {});
nlohmann::ordered_json parse_ordered_json(const std::string & text, const std::string & where); // few members an object

// A whole file of at most 256 MB.
std::string    load_text(const std::string & path);
nlohmann::json load_json(const std::string & path);

// Text to be printed or saved: invalid UTF-8 replaced, control characters escaped.
std::string json_text(const nlohmann::ordered_json & json, int indent = -1);
std::string json_line(const nlohmann::ordered_json & json);

} // namespace buoy
