#pragma once

#include "buoy/context.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace buoy {

// The largest bias of an edit that does not drop: however many add up, scores stay finite.
constexpr float attention_bias_max = 1e4f;

// What ContextParams::n_ctx means for a model trained at that length.
// Blocks stay whole: block_length > 1 rounds up.
int32_t choose_n_ctx(const ContextParams & params, int32_t n_ctx_train, int32_t block_length = 1);

// What is wrong with the requests of a pass, whichever engine runs it.
void check_requests(std::span<const ForwardRequest> batch, const ModelInfo & info, int32_t n_ctx, int32_t n_sequences);

// The positions of a request's tokens.
std::vector<int32_t> positions_of(const ForwardRequest & request);

// The indices chosen, or all below n where none is.
std::vector<int32_t> all_if_empty(std::vector<int32_t> chosen, int64_t n);

} // namespace buoy
