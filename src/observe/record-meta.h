#pragma once

#include "observe/record-choice.h"

#include <nlohmann/json.hpp>

namespace buoy {

// meta.json of a recording.
struct RecordMeta {
    const RecordParams & params;
    const RecordChoice & choice;
    const ModelInfo &    info;
    const Vocab &        vocab;
    const RecordedRun &  run;

    // steps: those of which something was kept.
    std::string text(const std::vector<int32_t> & sequence, int64_t n_steps, const std::vector<int32_t> & steps,
                     bool complete) const;

    // Bytes it takes at most, whatever is generated.
    uint64_t size_max(int32_t n_positions, int32_t n_steps) const;
};

// A token's text as JSON can hold it: bytes that are not UTF-8 become \xNN and a backslash becomes two, so that the bytes can be
// had back.
std::string piece_text(const std::string & piece);

} // namespace buoy
