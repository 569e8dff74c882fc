#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace buoy {

enum class JsonKeys { last_wins, unique };

// Parses text that nobody vouches for: nesting and the number of values are limited, every problem is an Error that
// begins with `where`.
nlohmann::json parse_json(const std::string & text, const std::string & where, JsonKeys keys = JsonKeys::last_wins);

// A whole file of at most 256 MB.
std::string    load_text(const std::string & path);
nlohmann::json load_json(const std::string & path);

// Text on one line, invalid UTF-8 replaced.
std::string json_line(const nlohmann::ordered_json & json);

} // namespace buoy
