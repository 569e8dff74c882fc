#pragma once

#include "buoy/generate.h"
#include "decode/canvas.h"
#include "decode/selection.h"

namespace buoy {

enum class Schedule {
    blocks,          // left to right (LLaDA)
    timesteps,       // everything at once (Dream)
    block_timesteps, // left to right, each along timesteps of its own: shifted models with a cache (Fast-dLLM)
    block_causal,    // left to right, tiled from position 0: what lies before a block never sees it
};

// What the user left open, filled in from the model.
struct DenoiseSettings {
    Algorithm      algorithm        = Algorithm::confidence;
    Algorithm      order            = Algorithm::confidence; // the algorithm, but for eb: by what it sorts
    Schedule       schedule         = Schedule::blocks;
    DiffusionCache cache            = DiffusionCache::none;
    float          eps              = 1e-3f;
    bool           even_steps       = false; // timesteps write the same number each
    int32_t        block_length     = 0;     // 0: one block
    int32_t        sub_block_length = 0;     // block_causal: 0: the block is one part

    // Whether the model decides how many steps a block takes.
    bool open_ended(const GenerateParams & params) const {
        return params.threshold || params.factor || params.edit_threshold || algorithm == Algorithm::eb;
    }
};

// Throws Error where this model can't do what is asked.
DenoiseSettings resolve_settings(const ModelInfo & info, const GenerateParams & params);

// Blocks from left to right (LLaDA, arXiv 2502.09992), with Fast-dLLM's caches and parallel rules (arXiv 2505.22618).
void denoise_blocks(Canvas & canvas, const DenoiseSettings & settings, const GenerateParams & params);

// Everything at once along timesteps (Dream, arXiv 2508.15487).
void denoise_timesteps(Canvas & canvas, const DenoiseSettings & settings, const GenerateParams & params);

// Fast-dLLM's blocks for shifted models, with a cache.
void denoise_shifted_blocks(Canvas & canvas, const DenoiseSettings & settings, const GenerateParams & params);

// Blocks tiled from position 0 with exact K/V of those that are finished: SDAR (arXiv 2510.06303), LLaDA2, and with sub-blocks and a
// shift Fast-dLLM v2 (arXiv 2509.26328).
void denoise_block_causal(Canvas & canvas, const DenoiseSettings & settings, const GenerateParams & params);

// Of step i of n_steps in a block of `length`, the number of positions that are due.
int32_t block_due(const GenerateParams & params, int32_t length, int32_t n_steps, int32_t i);

// Counts the passes of a block that has a store: which of them compute everything.
class FullPasses {
public:
    explicit FullPasses(int32_t refresh) : refresh_(refresh) {}

    // Whether the pass that comes now is one: the first, and then one after every so many where that is asked for.
    bool next() {
        const bool full = since_ == 0 || (refresh_ > 0 && since_ >= refresh_);
        since_          = full ? 1 : since_ + 1;
        return full;
    }

private:
    int32_t refresh_;
    int32_t since_ = 0;
};

// One token after the other with an exact K/V store.
Generation generate_autoregressive(Context & context, const std::vector<int32_t> & prompt,
                                   const GenerateParams & params);

// The steps of block `index` of those with masks, n_masked in this one: those that don't divide evenly go to the first blocks, and a
// block has one at least.
int32_t block_steps(const GenerateParams & params, int32_t n_blocks, int32_t index, int32_t n_masked);

// How many of the n_left masks, once n_total, step i of n_steps writes along timesteps.
int32_t count_of_step(const DenoiseSettings & settings, int32_t n_total, int32_t n_left, int32_t i, int32_t n_steps);

// Calls the function for every block that has masks, left to right, with its index and its share of the steps.
using DenoiseBlock = void (*)(Canvas & canvas, const DenoiseSettings & settings, const GenerateParams & params,
                              const BlockSpan & block, int32_t index, int32_t n_steps);
void for_each_block(Canvas & canvas, const DenoiseSettings & settings, const GenerateParams & params,
                    DenoiseBlock denoise);

} // namespace buoy
