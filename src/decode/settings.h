#pragma once

#include "decode/algorithms.h"

namespace buoy {

enum class ScheduleKind {
    blocks,          // left to right (LLaDA)
    timesteps,       // everything at once (Dream)
    block_timesteps, // left to right, each along timesteps of its own: shifted models with a cache (Fast-dLLM)
    block_causal,    // left to right, tiled from position 0: what lies before a block never sees it
    serving,         // the same blocks, by rules that decide about a block as a whole (SGLang)
    two_modes,       // blocks behind what was read causally (Nemotron-Labs-Diffusion)
    canvases,        // random tokens behind what was read causally, denoised again and again (DiffusionGemma)
    window,          // the first masks, wherever they are (Elastic-Cache)
    growing,         // the length is found while writing (DAEDAL)
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
    bool           exact_blocks = false; // block_causal: the last block may be short, a block's steps are for its masks
    bool           causal_context = true;  // two_modes: what lies before a block was read causally
    bool           append_blocks  = false; // blocks: what lies behind the current one does not exist yet

    // canvases, which are as long as a block
    CanvasDefaults canvas;
    bool           draws_best = false; // the most likely token is drawn

    int32_t              n_vocab        = 0;
    int32_t              n_layer        = 0;
    int32_t              initial_length = 0; // growing: tokens of the answer that it begins with
    std::optional<float> threshold;          // what was asked for, or the algorithm's own

    // serving
    double  edit_threshold = 0.0;
    int32_t delete_id      = -1;
    int32_t split_id       = -1;
    bool    needs_logits   = false; // not only summaries of rows

    bool is_block_causal() const { return schedule == ScheduleKind::block_causal || schedule == ScheduleKind::serving; }
    // A cache that chooses what is computed again.
    bool is_adaptive() const { return cache > DiffusionCache::dual; }
};

// Throws Error where this model can't do what is asked.
DecodeSettings resolve_settings(const ModelInfo & info, const GenerateParams & params);

} // namespace buoy
