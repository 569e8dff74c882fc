#pragma once

#include "support/random-context.h"

#include <vector>

namespace buoy::test {

// f32 products of another number of rows sum in another order
constexpr double batch_tolerance = 1e-9;

constexpr int32_t batch_size = 8;

// A context with that many sequences.
ContextParams many_sequences(ContextParams params = exact_params());

// Sequences of different lengths, positions and rows. A block-causal model's begin with a block.
std::vector<ForwardRequest> different_requests(KvUse kv);

ForwardRequest alone(ForwardRequest request); // as sequence 0

// Passes of batches, without a store and with one, against those of single sequences.
void check_batch(Context & together, Context & single, double tolerance = batch_tolerance);

// Full, causal and block-causal.
std::vector<RandomModel> attention_kinds();

} // namespace buoy::test
