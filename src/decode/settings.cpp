#include "decode/settings.h"

#include "buoy/message.h"

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
    const int  n_rules = (params.threshold ? 1 : 0) + (params.factor ? 1 : 0) + (bounded ? 1 : 0);
    if (n_rules > 1) {
        fail("threshold, factor and algorithm eb each decide how many positions a step writes; set only one of them");
    }
    if (params.steps > 0 && params.steps_per_block > 0) {
        fail("steps and steps per block set the same thing; set only one of them");
    }
    if (params.eps && blocks && !cached) {
        fail("timesteps (eps) run over the whole answer, so they can't be combined with blocks, unless a cache is "
             "used: then they run over each block");
    }
    if (params.eps && (params.factor || bounded)) {
        fail("timesteps (eps) decide how many positions a step writes, so they can't be combined with factor or eb");
    }
    if (params.edit_threshold && (params.factor || bounded)) {
        fail("an edit threshold can be combined with a threshold, but not with factor or eb");
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
    if (params.eps || row.blocks == BlockUse::never || row.score_block != nullptr) {
        fail("timesteps (eps), origin and pc-linear are not defined for block-causal models such as ", what);
    }
    if (params.cache_refresh > 0) {
        fail("a cache refresh is for full attention; the stored blocks of ", what, " are exact already");
    }
    if (params.edit_threshold && info.traits.shift) {
        fail("an edit threshold is for models that predict in place, and the rows of ", what, " are shifted");
    }
}

// A recommendation is for answers, not for gaps in a text, and gives way to whatever covers everything at once.
int32_t default_block_length(const ModelInfo & info, const GenerateParams & params, const AlgorithmRow & row) {
    const bool heeded = params.n_predict != 0 && !params.eps && row.blocks != BlockUse::never;
    return info.traits.block_length > 0 ? info.traits.block_length : heeded ? info.traits.recommended_block_length : 0;
}

// Shifted models were made for timesteps; asking for blocks, or for what only blocks have, gets blocks.
ScheduleKind choose_schedule(const ModelInfo & info, const GenerateParams & params, const DecodeSettings & settings,
                             const AlgorithmRow & row) {
    const bool cached = settings.cache != DiffusionCache::none;
    if (params.eps && cached && !info.traits.shift) {
        fail("timesteps (eps) can be combined with a cache only for shifted models, and ", info.arch, " is not one");
    }
    if (info.traits.shift && cached && (params.factor || row.blocks == BlockUse::required)) {
        fail("factor, eb and pc-linear are not defined for a shifted model with a cache; use a threshold");
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
    settings.shift    = info.traits.shift;
    settings.observed = static_cast<bool>(params.on_forward);
    if (!info.traits.is_diffusion()) {
        settings.schedule = ScheduleKind::autoregressive;
        return settings;
    }
    const bool block_causal = info.traits.attention == AttentionKind::block_causal;
    const bool parallel     = params.threshold.has_value() || params.factor.has_value();
    settings.cache          = params.cache.value_or(block_causal ? DiffusionCache::prefix : DiffusionCache::none);
    settings.algorithm      = params.algorithm.value_or(
             info.traits.shift && !parallel && !block_causal ? Algorithm::entropy : Algorithm::confidence);
    const AlgorithmRow & row  = algorithm_row(settings.algorithm);
    settings.order            = row.is_bound() && info.traits.even_steps ? Algorithm::confidence : settings.algorithm;
    settings.open_ended       = parallel || params.edit_threshold || row.count != nullptr;
    settings.eps              = params.eps.value_or(settings.eps);
    settings.even_steps       = info.traits.even_steps && !params.eps;
    settings.block_length     = params.block_length > 0 ? params.block_length : default_block_length(info, params, row);
    settings.sub_block_length = params.sub_block_length > 0 ? params.sub_block_length : info.traits.sub_block_length;
    check_attention(info, params, row);
    settings.schedule = block_causal ? ScheduleKind::block_causal : choose_schedule(info, params, settings, row);
    return settings;
}

void check_params(const GenerateParams & params) {
    check_sampling(params);
    check_ranges(params);
    check_contradictions(params, params.algorithm ? &algorithm_row(*params.algorithm) : nullptr);
}

void check_params(const GenerateParams & params, const ModelInfo & info) {
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
    if (params.n_predict < 0 && n_free > 0) {
        return static_cast<int32_t>(n_free);
    }
    if (params.n_predict < 0) {
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

} // namespace buoy
