#include "observe/record-meta.h"

#include "buoy/names.h"
#include "buoy/utf8.h"
#include "buoy/version.h"
#include "decode/generation-json.h"
#include "io/json-file.h"
#include "observe/record-member.h"

#include <algorithm>
#include <numeric>

namespace buoy {

namespace {

using Json = nlohmann::ordered_json;

constexpr int format_version = 1;

Json all_or(const std::vector<int32_t> & indices) { return indices.empty() ? Json("all") : Json(indices); }

// Those of a run that ended early end where it did.
Json regions_json(std::vector<Region> regions, size_t n_positions) {
    const int32_t end  = static_cast<int32_t>(n_positions);
    Json          list = Json::array();
    for (Region & region : regions) {
        for (auto & span : region.spans) {
            span = {std::min(span.first, end), std::min(span.second, end)};
        }
        list.push_back({{"name", utf8_repair(region.name)}, {"spans", region.spans}});
    }
    return list;
}

// Control tokens among those of the sequence: text shows them only on request.
std::vector<int32_t> special_ids(const Vocab & vocab, std::vector<int32_t> ids) {
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    ids.erase(std::remove_if(ids.begin(), ids.end(),
                             [&](int32_t id) { return !vocab.piece(id, false).empty() || vocab.piece(id).empty(); }),
              ids.end());
    return ids;
}

} // namespace

std::string piece_text(const std::string & piece) {
    static constexpr char digits[] = "0123456789abcdef";

    std::string      out;
    std::string_view left = piece;
    while (!left.empty()) {
        const size_t length = utf8_sequence_length(left);
        if (length == 0) {
            const auto byte = static_cast<uint8_t>(left[0]);
            out += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
        } else {
            out += left[0] == '\\' ? std::string_view("\\\\") : left.substr(0, length);
        }
        left.remove_prefix(std::max<size_t>(length, 1));
    }
    return out;
}

std::string RecordMeta::text(const std::vector<int32_t> & sequence, int64_t n_steps, const std::vector<int32_t> & steps,
                             bool complete) const {
    Json pieces = Json::array();
    for (int32_t id : sequence) {
        pieces.push_back(piece_text(vocab.piece(id)));
    }
    Json taps = Json::array();
    for (Tap tap : choice.taps) {
        taps.push_back(tap_folder(tap));
    }
    const bool pattern = std::find(choice.taps.begin(), choice.taps.end(), Tap::pattern) != choice.taps.end();
    const Json json    = {
           {"format", "buoy-recording"},
           {"format_version", format_version},
           {"version", version()},
           {"complete", complete},
           {"model", model_json(info)},
           {"attention", attention_kind_name(info.traits.attention)},
           {"settings", settings_json(info, run.context, run.generate)},
           {"seed", run.generate.seed},
           {"single_pass", run.single_pass},
           {"edits", run.edits},
           {"prompt", utf8_repair(run.prompt)},
           {"n_prompt", run.prompt_tokens.size()},
           {"n_positions", sequence.size()},
           {"n_steps", n_steps},
           {"recorded",
            {{"taps", taps},
             {"reduce", pattern ? Json(name_of(reduce_names, choice.reduce)) : Json(nullptr)},
             {"dtype", name_of(record_type_names, choice.type)},
             {"layers", choice.layers},
             {"heads", all_or(choice.heads)},
             {"rows", all_or(choice.rows)},
             {"steps", steps}}},
           {"regions", regions_json(params.regions, sequence.size())},
           {"special_ids", special_ids(vocab, sequence)},
           {"pieces", pieces},
    };
    return json_line(json);
}

uint64_t RecordMeta::size_max(int32_t n_positions, int32_t n_steps) const {
    std::vector<int32_t> steps = choice.steps;
    if (steps.empty()) {
        steps.resize(static_cast<size_t>(n_steps));
        std::iota(steps.begin(), steps.end(), 0);
    }
    size_t longest = 0; // of a piece in the list, with its comma
    for (int32_t id = 0; id < vocab.size(); id++) {
        const std::string piece = vocab.piece(id);
        if (piece.size() * 6 + 3 > longest) { // no byte takes more
            longest = std::max(longest, Json(piece_text(piece)).dump().size() + 1);
        }
    }
    const size_t n_given = run.prompt_tokens.size();
    const size_t n_masks =
        static_cast<size_t>(std::count(run.prompt_tokens.begin(), run.prompt_tokens.end(), info.traits.mask_id));
    const size_t n_new = static_cast<size_t>(n_positions) - n_given + n_masks;
    // each may be special besides; n_positions and complete are as long as they can be
    const size_t digits  = std::to_string(std::max(n_positions, vocab.size())).size();
    const size_t regions = regions_json(params.regions, static_cast<size_t>(n_positions)).dump().size();
    return text(run.prompt_tokens, n_steps, steps, false).size() + n_new * (longest + digits + 1) + digits + regions;
}

} // namespace buoy
