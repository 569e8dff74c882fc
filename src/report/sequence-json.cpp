#include "report/sequence-json.h"

#include "analysis/labels.h"
#include "base/base64.h"

#include <cmath>

namespace buoy::report {

namespace {

using analysis::Json;
using analysis::Recording;

// In meta.json a backslash is written twice, so that \xNN can only be a byte.
std::string shown_piece(const std::string & piece) {
    std::string out;
    for (size_t i = 0; i < piece.size(); i++) {
        out += piece[i];
        i += piece.compare(i, 2, "\\\\") == 0 ? 1 : 0;
    }
    return out;
}

// [[position, id, position, id, …] of each step]
Json changes_json(const Recording & recording) {
    Json out = Json::array();
    for (size_t step = 0; step < recording.n_steps(); step++) {
        Json changed = Json::array();
        for (size_t j = 0; j < recording.n_positions(); j++) {
            const int32_t id = recording.token(step + 1, j);
            if (id != recording.token(step, j)) {
                changed.push_back(j);
                changed.push_back(id);
            }
        }
        out.push_back(std::move(changed));
    }
    return out;
}

// A byte for each position and step, of 254; 255 where it was not scored. Where that is much, only of the step that wrote the position.
Json confidence_json(const Recording & recording, uint64_t size_max) {
    const std::vector<float>   confidence = recording.confidence();
    const std::vector<int32_t> unmask     = recording.unmask_step();
    const size_t               T          = recording.n_positions();
    const auto                 byte       = [](float p) {
        return std::isfinite(p) ? static_cast<char>(std::lround(std::fmin(std::fmax(p, 0.0f), 1.0f) * 254)) : '\xff';
    };
    std::string bytes;
    if (confidence.size() <= size_max / 8) {
        for (float p : confidence) {
            bytes += byte(p);
        }
        return {{"of_steps", true}, {"bytes", base64(bytes)}};
    }
    for (size_t j = 0; j < T; j++) {
        const bool written = unmask[j] >= 0 && static_cast<size_t>(unmask[j]) < recording.n_steps();
        bytes += written ? byte(confidence[static_cast<size_t>(unmask[j]) * T + j]) : '\xff';
    }
    return {{"of_steps", false}, {"bytes", base64(bytes)}};
}

Json regions_json(const Recording & recording) {
    Json out = Json::array();
    for (const Region & region : recording.regions()) {
        out.push_back({{"name", region.name}, {"spans", region.spans}});
    }
    return out;
}

// A list or an object of meta.json; `none` where it is missing or something else.
Json meta_list(const Json & meta, const char * key, const Json & none) {
    const Json value = meta.value(key, none);
    return value.type() == none.type() ? value : none;
}

} // namespace

Json sequence_json(const Recording & recording, uint64_t size_max) {
    const Json meta  = analysis::meta_of(recording);
    Json       model = meta["model"];
    if (model["path"].is_string()) {
        model["path"] = analysis::base_name(model["path"].get<std::string>()); // a page is passed on
    }
    Json pieces = Json::array();
    Json first  = Json::array();
    for (size_t j = 0; j < recording.n_positions(); j++) {
        pieces.push_back(shown_piece(recording.pieces()[j]));
        first.push_back(recording.token(0, j));
    }
    return {{"model", model},
            {"attention", meta["attention"]},
            {"version", meta.value("version", Json())},
            {"complete", meta.value("complete", Json())},
            {"single_pass", meta.value("single_pass", Json())},
            {"settings", meta_list(meta, "settings", Json::object())},
            {"seed", meta.value("seed", Json())},
            {"edits", meta_list(meta, "edits", Json::array())},
            {"recorded", meta["recorded"]},
            {"mask_id", recording.mask_id()},
            {"n_prompt", recording.n_prompt()},
            {"n_positions", recording.n_positions()},
            {"n_steps", recording.n_steps()},
            {"pieces", std::move(pieces)},
            {"first", std::move(first)},
            {"changes", changes_json(recording)},
            {"unmask", recording.unmask_step()},
            {"special_ids", recording.special_ids()},
            {"confidence", confidence_json(recording, size_max)},
            {"regions", regions_json(recording)}};
}

} // namespace buoy::report
