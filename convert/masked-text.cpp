#include "masked-text.h"

#include <algorithm>
#include <random>

namespace buoy {

namespace {

// The same on every platform, unlike the standard's distributions.
double uniform(std::mt19937_64 & random) { return static_cast<double>(random() >> 11) * 0x1.0p-53; }

// Hides tokens from position `from` on; an autoregressive model is asked for all of them. Where a model has no mask, another token of
// the text takes their place.
void hide(MaskedChunk & chunk, int32_t from, const Traits & traits, std::mt19937_64 & random) {
    const auto n     = static_cast<int32_t>(chunk.tokens.size());
    const auto text  = chunk.tokens;
    double     share = 0;
    for (int32_t i = from; i < n; ++i) {
        if (!traits.is_diffusion()) {
            if (i > 0) {
                chunk.hidden.push_back(i);
                chunk.targets.push_back(chunk.tokens[static_cast<size_t>(i)]);
            }
            continue;
        }
        if (i == from || (traits.block_length > 0 && i % traits.block_length == 0)) {
            share = 1 - uniform(random); // never 0
        }
        if (uniform(random) < share && (i > 0 || !traits.shift)) { // no row predicts a shifted model's first token
            chunk.hidden.push_back(i);
            chunk.targets.push_back(chunk.tokens[static_cast<size_t>(i)]);
            chunk.tokens[static_cast<size_t>(i)] =
                traits.mask_id >= 0 ? traits.mask_id : text[static_cast<size_t>(random() % text.size())];
        }
    }
}

} // namespace

std::vector<MaskedChunk> mask_text(const std::vector<int32_t> & tokens, const Traits & traits, int32_t n_chunk,
                                   int32_t n_max, uint64_t seed) {
    std::mt19937_64          random(seed);
    std::vector<MaskedChunk> chunks;
    for (size_t at = 0; at < tokens.size(); at += static_cast<size_t>(n_chunk)) {
        const size_t end = std::min(tokens.size(), at + static_cast<size_t>(n_chunk));
        if ((n_max > 0 && static_cast<int32_t>(chunks.size()) == n_max) ||
            (at > 0 && end - at < static_cast<size_t>(n_chunk))) {
            break;
        }
        MaskedChunk chunk;
        chunk.tokens.assign(tokens.begin() + static_cast<std::ptrdiff_t>(at),
                            tokens.begin() + static_cast<std::ptrdiff_t>(end));
        hide(chunk, 0, traits, random);
        chunks.push_back(std::move(chunk));
    }
    return chunks;
}

MaskedChunk mask_answer(std::vector<int32_t> tokens, size_t n_prompt, const Traits & traits, uint64_t seed) {
    std::mt19937_64 random(seed);
    MaskedChunk     chunk;
    chunk.tokens = std::move(tokens);
    hide(chunk, static_cast<int32_t>(n_prompt), traits, random);
    return chunk;
}

} // namespace buoy
