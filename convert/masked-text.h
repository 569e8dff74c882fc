#pragma once

#include "buoy/model.h"

#include <cstdint>
#include <vector>

namespace buoy {

// A piece of a text as the model meets it: some tokens hidden.
struct MaskedChunk {
    std::vector<int32_t> tokens;  // with masks
    std::vector<int32_t> hidden;  // positions whose token the model is to say, ascending
    std::vector<int32_t> targets; // those tokens
};

// Cuts the text into chunks of n_chunk tokens, at most n_max of them (0: all), a rest left out unless it is all there is.
// Of a diffusion model's chunk a share is hidden that is drawn evenly from 0 to 1 (of a block-causal model's, one for every
// block); an autoregressive model sees all and is to say each next token. The same seed hides the same tokens.
std::vector<MaskedChunk> mask_text(const std::vector<int32_t> & tokens, const Traits & traits, int32_t n_chunk,
                                   int32_t n_max, uint64_t seed);

// One conversation: the prompt stays, of the answer, from token n_prompt on, a share is hidden as above.
MaskedChunk mask_answer(std::vector<int32_t> tokens, size_t n_prompt, const Traits & traits, uint64_t seed);

} // namespace buoy
