#include "io/json-file.h"

#include "buoy/message.h"
#include "io/mapped-file.h"

#include <nlohmann/json.hpp>

#include <set>
#include <vector>

namespace buoy {

namespace {

constexpr int      DEPTH_MAX  = 64;
constexpr size_t   VALUES_MAX = 20'000'000; // 16 bytes each: what a hostile file can make us allocate
constexpr uint64_t FILE_MAX   = 256ull << 20;
} // namespace

nlohmann::json parse_json(const std::string & text, const std::string & where, JsonKeys keys) {
    using Json  = nlohmann::json;
    using Event = Json::parse_event_t;

    size_t                             n_values = 0;
    std::vector<std::set<std::string>> open_objects;

    const auto watch = [&](int depth, Event event, Json & parsed) {
        if ((event == Event::object_start || event == Event::array_start) && depth >= DEPTH_MAX) {
            fail(where, ": JSON nested deeper than ", DEPTH_MAX, " levels");
        }
        if (++n_values > VALUES_MAX) {
            fail(where, ": JSON with more than ", VALUES_MAX, " values");
        }
        if (keys == JsonKeys::unique) {
            if (event == Event::object_start) {
                open_objects.emplace_back();
            } else if (event == Event::object_end) {
                open_objects.pop_back();
            } else if (event == Event::key && !open_objects.back().insert(parsed.get<std::string>()).second) {
                fail(where, ": JSON key ", in_quotes(parsed.get<std::string>()), " appears twice");
            }
        }
        return true;
    };
    try {
        return Json::parse(text, watch);
    } catch (const Json::exception & e) {
        fail(where, ": not valid JSON: ", printable(e.what(), 200));
    }
}

std::string load_text(const std::string & path) {
    const MappedFile file = MappedFile::open(path);
    if (file.size() > FILE_MAX) {
        fail(path, ": ", file.size(), " bytes, expected at most ", FILE_MAX);
    }
    std::string text(static_cast<size_t>(file.size()), '\0');
    file.read(0, text.data(), text.size());
    return text;
}

nlohmann::json load_json(const std::string & path) { return parse_json(load_text(path), path); }

std::string json_line(const nlohmann::ordered_json & json) {
    return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

} // namespace buoy
