#pragma once

#include "buoy/generate.h"
#include "decode/canvas.h"
#include "decode/selection.h"

namespace buoy {

enum class Schedule {
    blocks,          // left to right (LLaDA)
    timesteps,       // everything at once (Dream)
    block_timesteps, // left to right, each along timesteps of its own: shifted models with a cache (Fast-dLLM)
};

// What the user left open, filled in from the model.
struct DenoiseSettings {
    Algorithm algorithm    = Algorithm::confidence;
    Schedule  schedule     = Schedule::blocks;
    float     eps          = 1e-3f;
    int32_t   block_length = 0; // 0: one block
};

// Throws Error where this model can't do what is asked.
DenoiseSettings resolve_settings(const ModelInfo & info, const GenerateParams & params);

// Blocks from left to right (LLaDA, arXiv 2502.09992), with Fast-dLLM's caches and parallel rules (arXiv 2505.22618).
void denoise_blocks(Canvas & canvas, const DenoiseSettings & settings, const GenerateParams & params);

// Everything at once along timesteps (Dream, arXiv 2508.15487).
void denoise_timesteps(Canvas & canvas, const DenoiseSettings & settings, const GenerateParams & params);

// Fast-dLLM's blocks for shifted models, with a cache.
void denoise_shifted_blocks(Canvas & canvas, const DenoiseSettings & settings, const GenerateParams & params);

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
Generation generate_autoregressive(Engine & engine, const std::vector<int32_t> & prompt, const GenerateParams & params);

// The steps of block `index` of those with masks, n_masked in this one: those that don't divide evenly go to the first blocks, and a
// block has one at least.
int32_t block_steps(const GenerateParams & params, int32_t n_blocks, int32_t index, int32_t n_masked);

// How many of the remaining masks step i of n_steps writes along timesteps.
int32_t count_of_step(int32_t n_masked, int32_t i, int32_t n_steps, float eps);

// Calls the function for every block that has masks, left to right, with its index and its share of the steps.
using DenoiseBlock = void (*)(Canvas & canvas, const DenoiseSettings & settings, const GenerateParams & params,
                              const BlockSpan & block, int32_t index, int32_t n_steps);
void for_each_block(Canvas & canvas, const DenoiseSettings & settings, const GenerateParams & params,
                    DenoiseBlock denoise);

} // namespace buoy
