#include "buoy/generate.h"

#include "base/fail.h"
#include "base/printable.h"
#include "decode/decode.h"

#include <array>
#include <chrono>

namespace buoy {

namespace {

struct AlgorithmName {
    Algorithm    algorithm;
    const char * name;
    const char * number; // upstream's, null for ours
};

constexpr std::array<AlgorithmName, 9> algorithm_names = {{
    {Algorithm::origin, "origin", "0"},
    {Algorithm::entropy, "entropy", "1"},
    {Algorithm::margin, "margin", "2"},
    {Algorithm::random, "random", "3"},
    {Algorithm::confidence, "confidence", "4"},
    {Algorithm::pc, "pc", nullptr},
    {Algorithm::pc_linear, "pc-linear", nullptr},
    {Algorithm::eb, "eb", nullptr},
    {Algorithm::sequential, "sequential", nullptr},
}};

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

int32_t sequence_count(const GenerateParams & params) { return params.cfg_scale > 0.0f ? 2 : 1; }

Generation generate(Context & context, const std::vector<int32_t> & prompt, const GenerateParams & asked) {
    const ModelInfo & info = context.info();
    check_params(asked, info);
    GenerateParams params = asked;
    params.n_predict      = answer_length(asked, prompt.size(), context.n_ctx());
    const auto start      = std::chrono::steady_clock::now();
    Generation out;
    if (info.traits.is_diffusion()) {
        DenoiseSettings settings     = resolve_settings(info, params);
        const bool      block_causal = settings.schedule == Schedule::block_causal;
        Canvas          canvas(context, prompt, params, block_causal ? settings.block_length : 0);
        if (canvas.first() == canvas.end()) {
            fail("nothing is masked: give -n, or a prompt with masks to fill");
        }
        settings.block_length = settings.block_length > 0 ? settings.block_length : canvas.end() - canvas.first();
        switch (settings.schedule) {
            case Schedule::blocks: denoise_blocks(canvas, settings, params); break;
            case Schedule::timesteps: denoise_timesteps(canvas, settings, params); break;
            case Schedule::block_timesteps: denoise_shifted_blocks(canvas, settings, params); break;
            case Schedule::block_causal: denoise_block_causal(canvas, settings, params); break;
        }
        out = canvas.finish();
    } else {
        out = generate_autoregressive(context, prompt, params);
    }
    const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
    out.decode_ms                                           = elapsed.count() - out.prompt_ms;
    return out;
}

} // namespace buoy
