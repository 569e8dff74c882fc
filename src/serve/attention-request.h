#pragma once

#include "buoy/edit.h"
#include "buoy/record.h"
#include "serve/fields.h"

#include <optional>
#include <string>
#include <vector>

namespace buoy::serve {

// How much of the attention that positions receive a frame tells.
enum class AttentionDetail {
    mean,   // one value for each position: the mean over layers and heads
    layers, // also one for each layer
    heads,  // also one for each head of each layer
};

// What a request asks about attention, before its length is known.
struct AttentionRequest {
    bool            in_frames = false;
    AttentionDetail detail    = AttentionDetail::mean;
    IndexRanges     layers, heads, steps; // of frames

    bool                       records = false;
    std::optional<std::string> run_id; // asked for
    RecordParams               record;
    IndexRanges                record_layers, record_heads, record_steps, record_rows;

    std::vector<EditSpec> edits;
    bool                  compare = false; // with an answer without the edits

    bool is_used() const { return in_frames || records || !edits.empty(); }
};

// The fields attention, record, attention_edit and compare. Throws HttpError.
AttentionRequest parse_attention(const Fields & body);

} // namespace buoy::serve
