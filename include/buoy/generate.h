#pragma once

#include "buoy/algorithm.h"
#include "buoy/context.h"
#include "buoy/method-setting.h"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace buoy {

// How keys and values are reused between steps. What lies before a block is exact for block-causal
// models, and approximate for those with full attention.
enum class DiffusionCache {
    none, // everything is computed in every step
    // Fast-dLLM (arXiv 2505.22618)
    prefix, // what lies before the block is computed once per block
    dual,   // what lies before and behind the block, or part of a block, is computed once
    // those that choose what is computed again, for full attention with our own engine
    d2,      // by certainty and attention rollout (d2Cache, arXiv 2509.23094)
    elastic, // what attention follows most, and from the layer on in which that has drifted everything (Elastic-Cache, arXiv 2510.14973)
    dllm,    // at intervals, and in between the values that have drifted most (dLLM-Cache)
    anchor,  // rows that attend to what was written, where the masks attend to them (ours)
};

// How much is approximated for speed (buoy/preset.h).
enum class Preset { exact, balanced, fast };

// Token frequencies of a corpus, for Algorithm::pc. Ids that are not listed count once.
struct FrequencyTable {
    int64_t                    n_total = 0;
    std::map<int32_t, int64_t> counts;
};

// Numbers that a method's choice in a step rests on.
struct Measure {
    std::string        name;
    std::vector<float> values;
};

// How a step changed the length of the canvas, where that is found while decoding. Its tokens were committed at the positions before.
struct CanvasGrowth {
    int32_t stage      = 0;  // 1: looking for the end of the answer, 2: writing
    int32_t length     = 0;  // positions that were computed, prompt included
    int32_t at         = -1; // a mask that became several
    int32_t n_inserted = 0;  // as many
    int32_t length_new = 0;

    int32_t moved(int32_t position) const { return at >= 0 && position > at ? position + n_inserted - 1 : position; }
};

// What one denoising step (or one autoregressive token) did.
struct StepReport {
    int32_t step  = 0;
    int32_t block = 0;
    std::vector<std::pair<int32_t, int32_t>>
        committed; // position, id; sorted by position; the mask's id takes a token back
    std::vector<std::pair<int32_t, float>>
                                confidence; // position, probability of its best token, of every position scored
    std::optional<CanvasGrowth> growth;
    // where an adaptive cache chooses: the positions computed, none: all; the layer from which on all were (Elastic-Cache), -1: none; and for
    // each layer that did not compute all those that it did (dLLM-Cache)
    std::vector<int32_t>                                   computed;
    std::optional<int32_t>                                 reset_layer;
    std::optional<std::map<int32_t, std::vector<int32_t>>> refreshed;
    std::vector<Measure>                                   measured;  // by methods that measure something
    std::optional<AttentionKind>                           attention; // of its pass, where a model's passes differ
    // position, id; a step that finishes a canvas leaves this instead of what it committed, where the two differ
    std::vector<std::pair<int32_t, int32_t>> finished;
};

// The random choices that a published run recorded for one of its steps; a sampler that takes them draws nothing itself.
struct RecordedDraws {
    std::vector<int32_t> canvas;  // the first step of a canvas: what it begins with
    std::vector<int32_t> ids;     // a token for each position
    std::vector<double>  uniform; // a number in [0, 1) for each position
};

// Called after every step with the sequence as it now is; returning false ends the generation cleanly.
using StepCallback = std::function<bool(const StepReport & step, const std::vector<int32_t> & tokens)>;

// Called before every forward pass with the step it belongs to; may add taps and edits to the request.
using ForwardCallback = std::function<void(int32_t step, ForwardRequest & request)>;

struct GenerateParams {
    // tokens to generate after the prompt; 0: only fill the masks the prompt has; -1: as many as the context has room for
    int32_t n_predict = 128;
    // diffusion: n_predict is the most, and the model finds the length while it decodes (DAEDAL); needs an end token
    bool auto_length = false;

    // choice of the token
    float                    temperature = 0.0f;  // 0: argmax
    bool                     greedy      = false; // argmax at any temperature, which then only changes confidences
    int32_t                  top_k       = 0;     // 0: all
    float                    top_p       = 1.0f;
    float                    min_p       = 0.0f;
    std::map<int32_t, float> logit_bias;
    uint64_t                 seed = 0;

    // denoising; what is left open is as the preset has it for the model's family, else as the model recommends
    std::optional<Preset> preset;
    int32_t               steps           = 0; // in all; 0: one token a step
    int32_t               steps_per_block = 0; // the same, counted per block
    int32_t               block_length    = 0; // semi-autoregressive blocks; 0: the model's, else everything at once
    bool                  append_blocks   = false; // full attention: a block exists once those before it are finished
    std::optional<float>  eps; // Dream's timesteps, from 1 down to eps, over everything; with a cache over each block
    std::optional<Algorithm>      algorithm;
    Scorer                        scorer;           // instead of an algorithm
    float                         alg_temp  = 0.0f; // > 0: positions are drawn from softmax(score / alg_temp)
    float                         cfg_scale = 0.0f; // > 0: classifier-free guidance; the context needs two sequences
    std::optional<float>          threshold;        // write every position at least that sure, and one at least
    std::optional<float>          factor;           // write the n surest while (n + 1)(1 − c_n) < factor
    float                         eb_gamma  = 0.01f;
    float                         pc_lambda = 0.25f;
    float                         pc_alpha  = 10.0f;
    FrequencyTable                pc_table;
    std::optional<DiffusionCache> cache;             // left open: prefix where that is exact, else none
    int32_t                       cache_refresh = 0; // > 0: compute everything again after that many steps of a block

    MethodSettings settings;          // constants of the method; those that are not set have their published defaults
    std::vector<RecordedDraws> draws; // by step

    // block-causal models
    int32_t              sub_block_length = 0; // a block is written in parts of that many; 0: the model's
    std::optional<float> edit_threshold;       // what was written is replaced by a token at least that sure (LLaDA2.1)
    int32_t              post_steps = 16;      // steps that may only edit, once a block has no masks
    float repeat_penalty            = 0.0f;    // joint-threshold: of a logit that repeats the token before its position
    std::optional<int32_t> delete_id;          // joint-threshold-indel's tokens; left open: the model's
    std::optional<int32_t> split_id;
    int32_t                n_batch = 512; // prompt tokens computed at a time

    // a model with two modes
    bool speculate      = false;            // draft blocks by diffusion, keep what the autoregressive model would write
    bool causal_context = true;             // read what lies before a block causally; false: both ways
    std::optional<int32_t> thinking_budget; // tokens after which end_think_id is written, unless it is there already
    int32_t                end_think_id = -1;

    std::vector<int32_t> end_ids; // generation ends where one of these is final
    StepCallback         on_step;
    ForwardCallback      on_forward; // with it, an autoregressive prompt is one pass
    ProgressCallback     on_prompt;  // between the passes over an autoregressive prompt; false stops the generation
};

struct Generation {
    std::vector<int32_t>    prompt;
    std::vector<int32_t>    sequence; // prompt and all that was written, masks where a stopped run left them
    std::vector<int32_t>    tokens;   // the new ones, trimmed before the end token
    std::vector<StepReport> steps;
    std::vector<std::pair<int32_t, int32_t>> reads; // of a model that writes canvases: start and length of what it read
    int64_t                                  n_forward = 0;
    double prompt_ms = 0.0; // autoregressive: until the first token; block-causal: a long prompt's batches
    double decode_ms = 0.0;
    size_t n_decoded = 0;     // of the tokens, those that decode_ms went into: without an autoregressive run's first
    bool   ended     = false; // at an end token
    bool   stopped   = false; // by a callback
};

// Sequences the context must have for these settings.
int32_t sequence_count(const GenerateParams & params);

// Throws Error where settings are out of range or contradict each other; with a model, also where it can't do what they ask.
// generate() checks the same.
void check_params(const GenerateParams & params);
void check_params(const GenerateParams & params, const ModelInfo & info);

// Tokens that will be generated after a prompt of that length. Throws Error where the context is too short for both.
int32_t answer_length(const GenerateParams & params, size_t n_prompt, int32_t n_ctx);
// The same for a model, which may write whole canvases only.
int32_t answer_length(const GenerateParams & params, size_t n_prompt, int32_t n_ctx, const ModelInfo & info);

// Diffusion or autoregression, as the model is. Masks inside the prompt of a diffusion model are filled as well.
Generation generate(Context & context, const std::vector<int32_t> & prompt, const GenerateParams & params);

struct BatchItem {
    std::vector<int32_t> prompt;
    GenerateParams       params;
};

// Generates several texts, each with the tokens that generate() would give it alone. As many at a time as the context has sequences
// (two for one with guidance) share their passes; one that ends leaves its place to the next.
std::vector<Generation> generate_batch(Context & context, std::span<const BatchItem> items);

} // namespace buoy
