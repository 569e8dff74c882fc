// Whole generations on Vulkan: the text of the CPU, for every decoding mode and cache, on the twins and on random models.

#include "buoy/bundled.h"
#include "buoy/generate.h"
#include "buoy/vocab.h"
#include "support/random-engine.h"
#include "support/vulkan.h"

#include <doctest/doctest.h>

using namespace buoy;
using namespace buoy::test;

namespace {

GenerateParams plain_params() {
    GenerateParams params;
    params.n_predict = 24;
    return params;
}

} // namespace

TEST_CASE("every decoding mode writes the same text") {
    const std::string path   = find_model(bundled_diffusion_model);
    const Vocab       vocab  = Vocab::load(path);
    EngineParams      engine = exact_params();
    engine.n_ctx             = 128;
    const Devices on         = on_both(path, engine);
    for (const Algorithm algorithm : {Algorithm::origin, Algorithm::entropy, Algorithm::margin, Algorithm::random,
                                      Algorithm::confidence, Algorithm::eb, Algorithm::sequential}) {
        CAPTURE(algorithm_name(algorithm));
        GenerateParams params = plain_params();
        params.algorithm      = algorithm;
        params.block_length   = algorithm == Algorithm::origin ? 0 : 8;
        if (algorithm == Algorithm::origin) {
            params.eps   = 1e-3f;
            params.steps = 12;
        }
        check_text(on, vocab, params);
    }
    GenerateParams pc     = plain_params();
    pc.algorithm          = Algorithm::pc;
    pc.pc_table           = {1000, {{5, 20}, {7, 100}}};
    pc.block_length       = 8;
    GenerateParams factor = plain_params();
    factor.factor         = 1.0f;
    factor.block_length   = 8;
    GenerateParams eps    = plain_params();
    eps.eps               = 1e-3f;
    eps.steps             = 12;
    GenerateParams drawn  = plain_params();
    drawn.temperature     = 0.7f;
    drawn.top_k           = 20;
    drawn.top_p           = 0.95f;
    drawn.seed            = 7;
    for (const GenerateParams & params : {pc, factor, eps, drawn}) {
        check_text(on, vocab, params);
    }
    for (const DiffusionCache cache : {DiffusionCache::none, DiffusionCache::prefix, DiffusionCache::dual}) {
        CAPTURE(static_cast<int>(cache));
        GenerateParams params = plain_params();
        params.cache          = cache;
        params.block_length   = 8;
        check_text(on, vocab, params);
        params.threshold = 0.9f;
        check_text(on, vocab, params);
    }
}

TEST_CASE("guidance writes the same text") {
    const std::string path = find_model(bundled_diffusion_model);
    EngineParams      engine;
    GenerateParams    params = plain_params();
    params.cfg_scale         = 0.5f;
    engine.n_ctx             = 128;
    engine.n_streams         = stream_count(params);
    const Devices on         = on_both(path, engine);
    check_text(on, Vocab::load(path), params);
    params.cache        = DiffusionCache::dual;
    params.block_length = 8;
    check_text(on, Vocab::load(path), params);
}

TEST_CASE("block-causal models write the same tokens") {
    for (const std::string arch : {"sdar", "sdar_moe", "llada2", "fast-dllm-v2"}) {
        CAPTURE(arch);
        RandomModel model;
        model.arch          = arch;
        model.n_head_kv     = 2;
        const Devices on    = on_both(random_gguf(model), exact_params());
        const auto    given = random_tokens(13, 256);
        for (const DiffusionCache cache : {DiffusionCache::none, DiffusionCache::prefix, DiffusionCache::dual}) {
            CAPTURE(static_cast<int>(cache));
            GenerateParams params;
            params.n_predict = 40;
            params.cache     = cache;
            CHECK(generate(*on.vulkan, given, params).sequence == generate(*on.cpu, given, params).sequence);
            params.threshold      = 0.02f;
            params.edit_threshold = 0.02f;
            CHECK(generate(*on.vulkan, given, params).sequence == generate(*on.cpu, given, params).sequence);
        }
    }
}
