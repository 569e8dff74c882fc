#pragma once

#include "decode/algorithms.h"

namespace buoy {

enum class ScheduleKind {
    blocks,          // left to right (LLaDA)
    timesteps,       // everything at once (Dream)
    block_timesteps, // left to right, each along timesteps of its own: shifted models with a cache (Fast-dLLM)
    block_causal,    // left to right, tiled from position 0: what lies before a block never sees it
    autoregressive,  // one token after the other
};

// What the user left open, filled in from the model.
struct DecodeSettings {
    Algorithm      algorithm        = Algorithm::confidence;
    Algorithm      order            = Algorithm::confidence; // the algorithm, but for eb: by what it sorts
    ScheduleKind   schedule         = ScheduleKind::blocks;
    DiffusionCache cache            = DiffusionCache::none;
    float          eps              = 1e-3f;
    bool           even_steps       = false; // timesteps write the same number each
    int32_t        block_length     = 0;     // 0: one block
    int32_t        sub_block_length = 0;     // block_causal: 0: the block is one part
    bool           shift            = false; // the row before a position predicts it
    bool           observed         = false; // somebody looks at the passes: a prompt is one of them
    bool           open_ended       = false; // the model decides how many positions a step writes

    bool is_block_causal() const { return schedule == ScheduleKind::block_causal; }
};

// Throws Error where this model can't do what is asked.
DecodeSettings resolve_settings(const ModelInfo & info, const GenerateParams & params);

} // namespace buoy
