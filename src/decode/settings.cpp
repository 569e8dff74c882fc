#include "decode/settings.h"

#include "buoy/message.h"
#include "buoy/preset.h"
#include "decode/method-settings.h"

#include <algorithm>
#include <cmath>

namespace buoy {

namespace {

void check_range(const char * what, double value, double low, double high) {
    if (!(value >= low && value <= high)) {
        fail(what, " is ", value, ", expected ", low, " to ", high);
    }
}

void check_sampling(const GenerateParams & params) {
    check_range("the temperature", static_cast<double>(params.temperature), 0.0, 1000.0);
    check_range("top-p", static_cast<double>(params.top_p), 1e-9, 1.0);
    check_range("min-p", static_cast<double>(params.min_p), 0.0, 1.0);
    check_range("top-k", params.top_k, 0, 1e9);
    for (const auto & [id, bias] : params.logit_bias) {
        if (std::isnan(bias) || (std::isinf(bias) && bias > 0.0f)) {
            fail("the logit bias of token ", id, " is ", bias, ", expected a number or -inf");
        }
    }
    if (params.auto_length && params.n_predict == 0) {
        fail("an answer of automatic length needs room: `n_predict` is 0");
    }
    if (params.n_predict < -1) {
        fail("the number of tokens to generate is ", params.n_predict, ", expected -1 (what fits), 0 or more");
    }
}

void check_ranges(const GenerateParams & params) {
    check_range("the number of diffusion steps", params.steps, 0, 1e6);
    check_range("the number of diffusion steps per block", params.steps_per_block, 0, 1e6);
    check_range("the diffusion block length", params.block_length, 0, 1e9);
    check_range("the diffusion algorithm's temperature", static_cast<double>(params.alg_temp), 0.0, 1000.0);
    check_range("the guidance scale", static_cast<double>(params.cfg_scale), 0.0, 1000.0);
    check_range("the cache refresh interval", params.cache_refresh, 0, 1e9);
    for (const AlgorithmInfo & info : algorithms()) {
        for (const AlgorithmParam & param : info.params) {
            check_range(param.label, static_cast<double>(params.*param.value), param.low, param.high);
        }
    }
    check_range("the threshold", static_cast<double>(params.threshold.value_or(0.5f)), 0.0, 1.0);
    check_range("the factor", static_cast<double>(params.factor.value_or(1.0f)), 0.0, 1e6);
    check_range("the sub-block length", params.sub_block_length, 0, 1e9);
    check_range("the edit threshold", static_cast<double>(params.edit_threshold.value_or(0.5f)), 0.0, 1.0);
    check_range("the number of steps that only edit", params.post_steps, 0, 1e6);
    check_range("the batch size", params.n_batch, 1, 1e9);
    check_range("eps", static_cast<double>(params.eps.value_or(0.1f)), 1e-9, 1.0 - 1e-6);
}

// What no model could make sense of. row: of the algorithm, null where that is left open.
void check_contradictions(const GenerateParams & params, const AlgorithmRow * row) {
    const bool cached  = params.cache.value_or(DiffusionCache::none) != DiffusionCache::none;
    const bool blocks  = params.block_length > 0 || params.steps_per_block > 0;
    const bool bounded = row != nullptr && row->is_bound();
    const bool cut     = params.threshold && (row == nullptr || !row->threshold); // else the algorithm uses it
    const int  n_rules = (cut ? 1 : 0) + (params.factor ? 1 : 0) + (bounded ? 1 : 0);
    if (n_rules > 1) {
        fail("threshold, factor and algorithm ", bounded ? row->info.name : "eb",
             " each decide how many positions a step writes; set only one of them");
    }
    if (params.steps > 0 && params.steps_per_block > 0) {
        fail("steps and steps per block set the same thing; set only one of them");
    }
    if (params.cfg_scale > 0.0f && params.cache.value_or(DiffusionCache::none) > DiffusionCache::dual) {
        fail("an adaptive cache (d2, elastic, dllm, anchor) follows one sequence, so it can't be combined with "
             "guidance");
    }
    if (params.cache_refresh > 0 && params.cache.value_or(DiffusionCache::none) > DiffusionCache::dual) {
        fail("an adaptive cache (d2, elastic, dllm, anchor) decides itself what is refreshed, and when");
    }
    if (params.eps && params.cache.value_or(DiffusionCache::none) > DiffusionCache::dual) {
        fail("timesteps (eps) are not defined with an adaptive cache (d2, elastic, dllm, anchor)");
    }
    if (params.eps && blocks && !cached) {
        fail("timesteps (eps) run over the whole answer, so they can't be combined with blocks, unless a cache is "
             "used: then they run over each block");
    }
    if (params.eps && (params.factor || bounded)) {
        fail("timesteps (eps) decide how many positions a step writes, so they can't be combined with factor or ",
             bounded ? row->info.name : "eb");
    }
    if (params.edit_threshold && (params.factor || bounded)) {
        fail("an edit threshold can be combined with a threshold, but not with factor or ",
             bounded ? row->info.name : "eb");
    }
    if (params.scorer && params.algorithm) {
        fail("a scorer replaces the algorithm; set only one of them");
    }
    if (row == nullptr) {
        return;
    }
    const char * const name = row->info.name;
    if (row->score_block != nullptr && params.eps) {
        fail("algorithm ", name, " compares the positions of a block, so it can't be combined with timesteps (eps)");
    }
    if (row->blocks == BlockUse::never && (blocks || cached)) {
        fail("algorithm ", name, " follows timesteps, so it can't be combined with blocks or a cache");
    }
    if (row->blocks == BlockUse::never && (params.threshold || params.factor)) {
        fail("algorithm ", name, " draws each position on its own, so it can't be combined with a threshold or factor");
    }
    if (row->rule != nullptr && params.alg_temp > 0.0f) {
        fail("algorithm ", name, " does not rank positions, so their order has no temperature (alg-temp)");
    }
    if (row->sees_all && cached) {
        fail("algorithm ", name, " looks at every position in every pass, so it can't be combined with a cache");
    }
    const DiffusionCache cache = params.cache.value_or(DiffusionCache::none);
    if (row->counts_steps && (cache == DiffusionCache::d2 || cache == DiffusionCache::anchor)) {
        fail("algorithm ", name,
             " compares each pass with the one before, and caches d2 and anchor leave positions out");
    }
    if (row->info.needs_table && params.pc_table.n_total <= 0) {
        fail("algorithm ", name, " needs a table of token frequencies");
    }
}

// What only makes sense for one of the two kinds of attention.
void check_attention(const ModelInfo & info, const GenerateParams & params, const AlgorithmRow & row) {
    const char * const what = info.arch.c_str();
    if (info.traits.attention != AttentionKind::block_causal) {
        if (params.edit_threshold || params.sub_block_length > 0) {
            fail("an edit threshold and sub-blocks need a block-causal model, and ", what, " has full attention");
        }
        return;
    }
    if (params.eps || row.blocks == BlockUse::never || row.score_block != nullptr || row.rule != nullptr) {
        fail("timesteps (eps), origin, pc-linear, localleap, plus-one, klass, dawn and wino are not defined for "
             "block-causal "
             "models such as ",
             what);
    }
    if (params.cache.value_or(DiffusionCache::none) > DiffusionCache::dual) {
        fail("an adaptive cache (d2, elastic, dllm, anchor) is for full attention; the stored blocks of ", what,
             " are exact already");
    }
    if (params.cache_refresh > 0) {
        fail("a cache refresh is for full attention; the stored blocks of ", what, " are exact already");
    }
    if (params.edit_threshold && info.traits.shift) {
        fail("an edit threshold is for models that predict in place, and the rows of ", what, " are shifted");
    }
}

// What only models with two modes do, and what they don't.
void check_modes(const ModelInfo & info, const GenerateParams & params) {
    const bool both = info.traits.two_modes && info.traits.is_diffusion();
    if (params.thinking_budget && (*params.thinking_budget < 0 || params.end_think_id < 0)) {
        fail("a thinking budget of ", *params.thinking_budget, " tokens needs the token that ends thinking");
    }
    if (params.speculate && !both) {
        fail("speculation needs a model that is autoregressive and diffusion at once, in its diffusion mode; ",
             info.arch, info.traits.two_modes ? " was loaded as autoregressive" : " is only one of them");
    }
    if (params.speculate && (!params.causal_context || params.thinking_budget)) {
        fail("speculation verifies causally, so it can't be combined with a context read both ways or a thinking "
             "budget");
    }
    if (!params.causal_context && !both) {
        fail("only a model with two modes can read its context both ways instead of causally, and ", info.arch,
             " is not one");
    }
    if (both && (params.cache || params.cache_refresh > 0 || params.eps || params.cfg_scale > 0.0f)) {
        fail(info.arch, " reads its prompt once and causally: caches, timesteps (eps) and guidance do not apply");
    }
}

// A model that writes canvases has a sampler of its own, with settings that its file recommends.
void resolve_canvases(const ModelInfo & info, const GenerateParams & params, DecodeSettings & settings) {
    const bool picks = params.top_k > 0 || params.top_p < 1.0f || params.min_p > 0.0f || !params.logit_bias.empty();
    const char * const what = params.temperature > 0.0f || params.greedy ? "a temperature (t_min and t_max are its own)"
                              : picks ? "a choice among tokens (top-k, top-p, min-p, bias)"
                              : params.steps > 0 || params.steps_per_block > 0
                                  ? "a number of steps (max_denoising_steps is its own)"
                              : params.algorithm || params.scorer        ? "an algorithm"
                              : params.eps || params.alg_temp > 0.0f     ? "timesteps or alg-temp"
                              : params.threshold || params.factor        ? "a threshold or factor"
                              : params.cache || params.cache_refresh > 0 ? "a cache: what it has read is stored anyway"
                              : params.edit_threshold || params.sub_block_length > 0 ? "an edit threshold or sub-blocks"
                              : params.append_blocks || params.auto_length ? "appended blocks or an automatic length"
                              : params.cfg_scale > 0.0f                    ? "guidance, which needs a mask token"
                              : params.thinking_budget                     ? "a thinking budget"
                                                                           : nullptr;
    if (what != nullptr) {
        fail(info.arch, " writes canvases by a sampler of its own, which has no place for ", what);
    }
    const SettingReader    s(params, false);
    const CanvasDefaults & own    = info.traits.canvas;
    const auto             number = [&](const char * name, double otherwise) {
        return s.is_set(name) ? s.number(name) : otherwise;
    };
    const auto whole = [&](const char * name, int32_t otherwise) { return s.is_set(name) ? s.whole(name) : otherwise; };
    settings.canvas  = {.steps                = whole("max_denoising_steps", own.steps),
                        .t_min                = number("t_min", own.t_min),
                        .t_max                = number("t_max", own.t_max),
                        .entropy_bound        = number("entropy_bound", own.entropy_bound),
                        .stability_threshold  = whole("stability_threshold", own.stability_threshold),
                        .confidence_threshold = number("confidence_threshold", own.confidence_threshold),
                        .pad_id               = whole("pad_token_id", own.pad_id)};
    settings.draws_best   = s.whole("draw") == 1;
    settings.block_length = params.block_length > 0 ? params.block_length : info.traits.canvas_length;
    settings.open_ended   = true;
    settings.schedule     = ScheduleKind::canvases;
    if (settings.canvas.pad_id >= info.n_vocab && info.n_vocab > 0) {
        fail("setting pad_token_id is ", settings.canvas.pad_id, ", the model has ", info.n_vocab, " tokens");
    }
    const CanvasDefaults & c = settings.canvas;
    if (!(c.t_min + (c.t_max - c.t_min) / c.steps > 0.0) || !(c.t_max > 0.0)) {
        fail("temperatures from t_max ", c.t_max, " down to t_min ", c.t_min, " are not all above 0");
    }
}

// A recommendation is for answers, not for gaps in a text, and gives way to whatever covers everything at once.
int32_t default_block_length(const ModelInfo & info, const GenerateParams & params, const AlgorithmRow & row) {
    constexpr int32_t usual  = 32; // iLLaDA's paper, Nemotron-Labs-Diffusion
    const bool        heeded = params.n_predict != 0 && !params.eps && row.blocks != BlockUse::never;
    if (info.traits.block_length > 0) {
        return info.traits.block_length;
    }
    if (heeded && info.traits.recommended_block_length > 0) {
        return info.traits.recommended_block_length;
    }
    return params.append_blocks || info.traits.two_modes ? usual : 0;
}

// SGLang's defaults.
ScheduleKind resolve_serving(const ModelInfo & info, const GenerateParams & params, DecodeSettings & settings) {
    const char * const name  = algorithm_name(settings.algorithm);
    const bool         indel = settings.algorithm == Algorithm::joint_threshold_indel;
    const bool         edits = settings.algorithm != Algorithm::low_confidence;
    if (info.traits.attention != AttentionKind::block_causal || info.traits.shift) {
        fail("algorithm ", name, " needs a block-causal model that predicts in place, and ", info.arch, " is none");
    }
    if (params.factor || params.temperature > 0.0f || params.alg_temp > 0.0f || settings.sub_block_length > 0 ||
        params.steps > 0 || params.steps_per_block > 0 || settings.cache == DiffusionCache::dual) {
        fail("algorithm ", name,
             " takes the most likely tokens of whole blocks, as many as its thresholds say, so it "
             "can't be combined with a temperature, factor, steps, sub-blocks or cache dual");
    }
    if (params.edit_threshold && !edits) {
        fail("algorithm ", name, " edits nothing; joint-threshold does");
    }
    settings.edit_threshold = static_cast<double>(params.edit_threshold.value_or(0.0f));
    settings.delete_id      = params.delete_id.value_or(info.traits.delete_id);
    settings.split_id       = params.split_id.value_or(info.traits.split_id);
    if (indel && (settings.delete_id < 0 || settings.split_id < 0 || settings.delete_id >= info.n_vocab ||
                  settings.split_id >= info.n_vocab)) {
        fail("algorithm ", name,
             " needs the tokens that delete and split positions; the file has no keys "
             "'diffusion.delete_token_id' and 'diffusion.split_token_id' for them");
    }
    settings.needs_logits = indel || params.repeat_penalty > 0.0f;
    if (indel && params.n_predict == 0) {
        fail("algorithm ", name, " moves what follows a position, so it can't fill gaps in a text");
    }
    return ScheduleKind::serving;
}

// What DAEDAL decides itself.
void check_growing(const ModelInfo & info, const GenerateParams & params, const DecodeSettings & settings) {
    const char * const what =
        settings.cache != DiffusionCache::none                                                       ? "a cache"
        : params.algorithm.value_or(Algorithm::confidence) != Algorithm::confidence || params.scorer ? "an algorithm"
        : params.threshold || params.factor || params.edit_threshold ? "a threshold or factor"
        : params.eps                                                 ? "timesteps (eps)"
        : params.steps > 0 || params.steps_per_block > 0             ? "a number of steps"
                                                                     : nullptr;
    if (what != nullptr) {
        fail("an answer of automatic length is written by a rule of its own (daedal), so it can't be combined with ",
             what);
    }
    const SettingReader s(params, info.traits.shift);
    if (s.is_set("eos_id") && s.whole("eos_id") >= info.n_vocab) {
        fail("setting eos_id is ", s.whole("eos_id"), ", the model has ", info.n_vocab, " tokens");
    }
}

// Elastic-Cache has a window in place of blocks.
void check_window(const ModelInfo & info, const GenerateParams & params, const AlgorithmRow & row) {
    if (info.traits.shift) {
        fail("cache elastic is for models that predict in place, and the rows of ", info.arch, " are shifted");
    }
    if (params.block_length > 0 || params.steps > 0 || params.steps_per_block > 0) {
        fail(
            "cache elastic writes the first masks there are, so it has no blocks and steps; the settings window_length "
            "and tokens_per_iter are in their place");
    }
    if (row.score_block != nullptr || row.counts_steps) {
        fail("algorithm ", row.info.name, " needs blocks, and cache elastic has none");
    }
}

// Shifted models were made for timesteps; asking for blocks, or for what only blocks have, gets blocks.
ScheduleKind choose_schedule(const ModelInfo & info, const GenerateParams & params, const DecodeSettings & settings,
                             const AlgorithmRow & row) {
    const bool cached = settings.cache != DiffusionCache::none;
    if (params.eps && cached && !info.traits.shift) {
        fail("timesteps (eps) can be combined with a cache only for shifted models, and ", info.arch, " is not one");
    }
    if (settings.cache == DiffusionCache::elastic) {
        check_window(info, params, row);
        return ScheduleKind::window;
    }
    if (settings.is_adaptive()) {
        return ScheduleKind::blocks;
    }
    if (info.traits.shift && cached && (params.factor || row.blocks == BlockUse::required)) {
        fail(params.factor ? "factor" : row.info.name,
             " is not defined for a shifted model with a cache; use a threshold");
    }
    const bool wants_blocks = settings.block_length > 0 || params.steps_per_block > 0 || params.factor.has_value() ||
                              row.blocks == BlockUse::preferred || row.blocks == BlockUse::required;
    if (info.traits.shift && cached) {
        return ScheduleKind::block_timesteps;
    }
    if (params.eps || (info.traits.shift && !wants_blocks)) {
        return ScheduleKind::timesteps;
    }
    if (row.blocks == BlockUse::never) {
        fail("algorithm ", row.info.name, " follows timesteps, which ", info.arch, " uses only if eps is set");
    }
    return ScheduleKind::blocks;
}

} // namespace

DecodeSettings resolve_settings(const ModelInfo & info, const GenerateParams & params) {
    DecodeSettings settings;
    settings.shift          = info.traits.shift;
    settings.observed       = static_cast<bool>(params.on_forward);
    settings.n_layer        = info.n_layer;
    settings.n_vocab        = info.n_vocab;
    settings.causal_context = params.causal_context;
    check_modes(info, params);
    if (info.traits.writes_canvases()) {
        resolve_canvases(info, params, settings);
        return settings;
    }
    if (!info.traits.is_diffusion()) {
        settings.schedule = ScheduleKind::autoregressive;
        return settings;
    }
    const bool block_causal  = info.traits.attention == AttentionKind::block_causal;
    const bool parallel      = params.threshold.has_value() || params.factor.has_value();
    settings.cache           = params.cache.value_or(block_causal ? DiffusionCache::prefix : DiffusionCache::none);
    const bool by_entropy    = info.traits.shift && !parallel && !block_causal && !settings.is_adaptive();
    settings.algorithm       = params.algorithm.value_or(by_entropy ? Algorithm::entropy : Algorithm::confidence);
    const AlgorithmRow & row = algorithm_row(settings.algorithm);
    settings.order           = row.is_bound() && info.traits.even_steps ? Algorithm::confidence : settings.algorithm;
    settings.open_ended =
        parallel || params.edit_threshold || row.count != nullptr || row.rule != nullptr || row.serves;
    settings.threshold        = params.threshold ? params.threshold : row.threshold;
    settings.eps              = params.eps.value_or(settings.eps);
    settings.even_steps       = info.traits.even_steps && !params.eps;
    settings.block_length     = params.block_length > 0 ? params.block_length : default_block_length(info, params, row);
    settings.sub_block_length = params.sub_block_length > 0 ? params.sub_block_length : info.traits.sub_block_length;
    settings.exact_blocks     = block_causal && info.traits.exact_blocks;
    settings.append_blocks    = params.append_blocks;
    check_attention(info, params, row);
    if (row.info.algorithm == Algorithm::wino && info.traits.shift) {
        fail("algorithm wino is for models that predict in place, and the rows of ", info.arch, " are shifted");
    }
    settings.schedule = row.serves              ? resolve_serving(info, params, settings)
                        : block_causal          ? ScheduleKind::block_causal
                        : info.traits.two_modes ? ScheduleKind::two_modes
                                                : choose_schedule(info, params, settings, row);
    if (params.append_blocks && settings.schedule != ScheduleKind::blocks) {
        fail("blocks can be appended one by one only where full attention decodes in blocks; ", info.arch,
             settings.schedule == ScheduleKind::timesteps ? " follows timesteps here"
                                                          : " never sees what follows a block anyway");
    }
    if (params.append_blocks && (settings.is_adaptive() || params.auto_length)) {
        fail("blocks that are appended one by one can't be combined with an adaptive cache (d2, elastic, dllm, anchor) "
             "or an "
             "automatic length");
    }
    if (settings.schedule == ScheduleKind::window) {
        settings.block_length = 0;
    }
    if (params.auto_length) {
        if (block_causal || info.traits.two_modes) {
            fail("an answer of automatic length needs full attention; ", info.arch, " writes block after block");
        }
        check_growing(info, params, settings);
        constexpr int32_t daedal_block = 32;
        settings.schedule              = ScheduleKind::growing;
        settings.open_ended            = true;
        settings.initial_length        = SettingReader(params, info.traits.shift).whole("initial_gen_length");
        settings.block_length          = settings.block_length > 0 ? settings.block_length : daedal_block;
    }
    return settings;
}

void check_params(const GenerateParams & params) {
    check_sampling(params);
    check_ranges(params);
    check_settings(params.settings);
    check_contradictions(params, params.algorithm ? &algorithm_row(*params.algorithm) : nullptr);
}

void check_params(const GenerateParams & asked, const ModelInfo & info) {
    const AppliedPreset    applied = apply_preset(asked, info);
    const GenerateParams & params  = applied.params;
    check_params(params);
    for (const auto & [id, bias] : params.logit_bias) {
        if (id < 0 || id >= info.n_vocab) {
            fail("the logit bias names token ", id, " (", bias, "), the model has ", info.n_vocab, " tokens");
        }
    }
    resolve_settings(info, params);
    if (!info.traits.is_diffusion() && params.cfg_scale > 0.0f) {
        fail("classifier-free guidance masks the prompt, and an autoregressive model has no masks");
    }
}

int32_t answer_length(const GenerateParams & params, size_t n_prompt, int32_t n_ctx) {
    const int64_t n_free = static_cast<int64_t>(n_ctx) - static_cast<int64_t>(n_prompt);
    const bool    fits   = params.auto_length && params.n_predict > n_free; // it is the most
    if ((params.n_predict < 0 || fits) && n_free > 0) {
        return static_cast<int32_t>(n_free);
    }
    if (params.n_predict < 0 || fits) {
        fail("the prompt has ", n_prompt, " tokens and the context ", n_ctx,
             " positions, which leaves no room for an answer; a larger `n_ctx` would");
    }
    if (params.n_predict > n_free) {
        fail("prompt (", n_prompt, ") and answer (", params.n_predict, ") need ",
             static_cast<int64_t>(n_prompt) + params.n_predict, " positions, the context has ", n_ctx,
             "; use a larger `n_ctx` or a smaller `n_predict`");
    }
    return params.n_predict;
}

int32_t answer_length(const GenerateParams & params, size_t n_prompt, int32_t n_ctx, const ModelInfo & info) {
    const int32_t n = answer_length(params, n_prompt, n_ctx);
    if (!info.traits.writes_canvases()) {
        return n;
    }
    const int64_t C      = params.block_length > 0 ? params.block_length : info.traits.canvas_length;
    const int64_t n_free = static_cast<int64_t>(n_ctx) - static_cast<int64_t>(n_prompt);
    const int64_t n_all =
        n == n_free ? n / C * C : (n + C - 1) / C * C; // whole canvases; as many as fit, or as it takes
    if (n_all > n_free || (n_all == 0 && n > 0)) {
        const int64_t n_least = std::max(n_all, C);
        fail("prompt (", n_prompt, ") and answer (", n_least, ", in whole canvases of ", C, ") need ",
             static_cast<int64_t>(n_prompt) + n_least, " positions, the context has ", n_ctx, "; use a larger `n_ctx`");
    }
    return static_cast<int32_t>(n_all);
}

} // namespace buoy
