#include "buoy/generate.h"

#include "buoy/error.h"
#include "decode/decode.h"
#include "io/printable.h"

#include <array>
#include <chrono>
#include <cmath>

namespace buoy {

namespace {

struct AlgorithmName {
    Algorithm    algorithm;
    const char * name;
    const char * number; // upstream's, null for ours
};

constexpr std::array<AlgorithmName, 8> algorithm_names = {{
    {Algorithm::origin, "origin", "0"},
    {Algorithm::entropy, "entropy", "1"},
    {Algorithm::margin, "margin", "2"},
    {Algorithm::random, "random", "3"},
    {Algorithm::confidence, "confidence", "4"},
    {Algorithm::pc, "pc", nullptr},
    {Algorithm::pc_linear, "pc-linear", nullptr},
    {Algorithm::eb, "eb", nullptr},
}};

void check_range(const char * what, double value, double low, double high) {
    if (!(value >= low && value <= high)) {
        fail(what, " is ", value, ", expected ", low, " to ", high);
    }
}

void check_sampling(const GenerateParams & params, const ModelInfo & info) {
    check_range("the temperature", static_cast<double>(params.temperature), 0.0, 1000.0);
    check_range("top-p", static_cast<double>(params.top_p), 1e-9, 1.0);
    check_range("min-p", static_cast<double>(params.min_p), 0.0, 1.0);
    check_range("top-k", params.top_k, 0, 1e9);
    for (const auto & [id, bias] : params.logit_bias) {
        if (id < 0 || id >= info.n_vocab || std::isnan(bias)) {
            fail("the logit bias names token ", id, " (", bias, "), the model has ", info.n_vocab, " tokens");
        }
    }
}

void check_denoising(const GenerateParams & params) {
    check_range("the number of diffusion steps", params.steps, 0, 1e6);
    check_range("the number of diffusion steps per block", params.steps_per_block, 0, 1e6);
    check_range("the diffusion block length", params.block_length, 0, 1e9);
    check_range("the diffusion algorithm's temperature", static_cast<double>(params.alg_temp), 0.0, 1000.0);
    check_range("the guidance scale", static_cast<double>(params.cfg_scale), 0.0, 1000.0);
    check_range("the cache refresh interval", params.cache_refresh, 0, 1e9);
    check_range("the entropy bound", static_cast<double>(params.eb_gamma), 0.0, 1e6);
    check_range("pc's lambda", static_cast<double>(params.pc_lambda), 0.0, 1e6);
    check_range("pc's alpha", static_cast<double>(params.pc_alpha), 0.0, 1e6);
    check_range("the threshold", static_cast<double>(params.threshold.value_or(0.5f)), 0.0, 1.0);
    check_range("the factor", static_cast<double>(params.factor.value_or(1.0f)), 0.0, 1e6);
    check_range("eps", static_cast<double>(params.eps.value_or(0.1f)), 1e-9, 1.0 - 1e-6);
    if (params.eps && (params.block_length > 0 || params.steps_per_block > 0)) {
        fail("timesteps (eps) cover everything at once, so they can't be combined with blocks");
    }
    if (params.threshold && params.factor) {
        fail("threshold and factor are two rules for the same choice, give one of them");
    }
    if (params.steps > 0 && params.steps_per_block > 0) {
        fail("steps and steps per block say the same thing, give one of them");
    }
    const bool needs_table = params.algorithm == Algorithm::pc || params.algorithm == Algorithm::pc_linear;
    if (needs_table && params.pc_table.n_total <= 0) {
        fail("algorithm ", algorithm_name(*params.algorithm), " needs a table of token frequencies");
    }
}

} // namespace

Algorithm parse_algorithm(const std::string & text) {
    std::string known;
    for (const AlgorithmName & entry : algorithm_names) {
        if (text == entry.name || (entry.number != nullptr && text == entry.number)) {
            return entry.algorithm;
        }
        known += (known.empty() ? "" : ", ") + std::string(entry.name);
    }
    fail("unknown diffusion algorithm ", in_quotes(text), ", known are ", known,
         ", and 0 to 4 as llama.cpp numbers the first five");
}

const char * algorithm_name(Algorithm algorithm) {
    for (const AlgorithmName & entry : algorithm_names) {
        if (entry.algorithm == algorithm) {
            return entry.name;
        }
    }
    return "unknown";
}

int32_t stream_count(const GenerateParams & params) { return params.cfg_scale > 0.0f ? 2 : 1; }

DenoiseSettings resolve_settings(const ModelInfo & info, const GenerateParams & params) {
    DenoiseSettings settings;
    const bool      parallel = params.threshold.has_value() || params.factor.has_value();
    settings.algorithm =
        params.algorithm.value_or(info.traits.shift && !parallel ? Algorithm::entropy : Algorithm::confidence);
    settings.eps = params.eps.value_or(settings.eps);

    // shifted models were made for timesteps; asking for blocks, or for what only blocks have, gets blocks
    const bool wants_blocks = params.block_length > 0 || params.steps_per_block > 0 || params.factor.has_value() ||
                              params.cache != DiffusionCache::none || settings.algorithm == Algorithm::pc ||
                              settings.algorithm == Algorithm::pc_linear || settings.algorithm == Algorithm::eb ||
                              info.traits.block_length > 0;
    settings.timesteps =
        params.eps.has_value() ? params.cache == DiffusionCache::none : info.traits.shift && !wants_blocks;
    settings.block_length = params.block_length > 0 ? params.block_length : info.traits.block_length;
    if (settings.timesteps && (params.factor || settings.algorithm == Algorithm::eb)) {
        fail("timesteps (eps) say how many positions a step writes, so they can't be combined with factor or eb");
    }
    if (info.traits.shift && params.cache != DiffusionCache::none &&
        (params.factor || settings.algorithm == Algorithm::eb)) {
        fail("factor and eb are not known for a shifted model with a cache; use a threshold");
    }
    if (params.eps && params.cache != DiffusionCache::none && !info.traits.shift) {
        fail("timesteps (eps) cover everything at once, so they can't be combined with a cache");
    }
    if (settings.algorithm == Algorithm::origin && !settings.timesteps) {
        fail("algorithm origin follows timesteps, so it can't be combined with blocks or a cache");
    }
    return settings;
}

Generation generate(Engine & engine, const std::vector<int32_t> & prompt, const GenerateParams & params) {
    const ModelInfo & info = engine.info();
    check_sampling(params, info);
    check_denoising(params);
    if (params.n_predict < 0) {
        fail("the number of tokens to generate is ", params.n_predict, ", expected 0 or more");
    }
    const int64_t n_total = static_cast<int64_t>(prompt.size()) + params.n_predict;
    if (n_total > engine.n_ctx()) {
        fail("prompt (", prompt.size(), ") and answer (", params.n_predict, ") need ", n_total,
             " positions, the context has ", engine.n_ctx(), "; a larger -c or a smaller -n would fit");
    }
    const auto start = std::chrono::steady_clock::now();
    Generation out;
    if (info.traits.is_diffusion()) {
        DenoiseSettings settings = resolve_settings(info, params);
        Canvas          canvas(engine, prompt, params);
        if (canvas.first() == canvas.end()) {
            fail("nothing is masked: give -n, or a prompt with masks to fill");
        }
        settings.block_length = settings.block_length > 0 ? settings.block_length : canvas.end() - canvas.first();
        if (settings.timesteps) {
            denoise_timesteps(canvas, settings, params);
        } else if (info.traits.shift && params.cache != DiffusionCache::none) {
            denoise_shifted_blocks(canvas, settings, params);
        } else {
            denoise_blocks(canvas, settings, params);
        }
        out = canvas.finish();
    } else {
        out = generate_autoregressive(engine, prompt, params);
    }
    const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
    out.decode_ms                                           = elapsed.count() - out.prompt_ms;
    return out;
}

} // namespace buoy
