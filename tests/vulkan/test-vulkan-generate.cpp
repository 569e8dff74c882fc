// Whole generations on Vulkan: the text of the CPU, for every decoding mode and cache, on the twins and on random models.

#include "buoy/bundled.h"
#include "buoy/generate.h"
#include "buoy/vocab.h"
#include "support/random-context.h"
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
    const std::string path    = find_model(bundled_diffusion_model);
    const Vocab       vocab   = Vocab::load(path);
    ContextParams     context = exact_params();
    context.n_ctx             = 128;
    const Devices on          = on_both(path, context);
    for (const Algorithm algorithm :
         {Algorithm::origin, Algorithm::entropy, Algorithm::margin, Algorithm::random, Algorithm::confidence,
          Algorithm::pc, Algorithm::pc_linear, Algorithm::eb, Algorithm::sequential}) {
        CAPTURE(algorithm_name(algorithm));
        GenerateParams params = plain_params();
        params.algorithm      = algorithm;
        params.block_length   = algorithm == Algorithm::origin ? 0 : 8;
        if (algorithm == Algorithm::origin) {
            params.eps   = 1e-3f;
            params.steps = 12;
        }
        params.pc_table = {1000, {{5, 20}, {7, 100}}};
        check_text(on, vocab, params);
    }
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
    drawn.min_p           = 0.01f;
    drawn.alg_temp        = 0.5f;
    drawn.seed            = 7;
    for (const GenerateParams & params : {factor, eps, drawn}) {
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
        params.cache_refresh = 3;
        check_text(on, vocab, params);
    }
}

TEST_CASE("gaps inside a text are filled the same") {
    const std::string path  = find_model(bundled_diffusion_model);
    const Devices     on    = on_both(path, exact_params());
    const Vocab       vocab = Vocab::load(path);
    auto              given = vocab.encode("Mira had a red ball. She gave the ball to Sten.", true, false);
    for (const size_t gap : {3, 4, 8}) {
        given.at(gap) = on.cpu->info().traits.mask_id;
    }
    GenerateParams params;
    params.n_predict = 0;
    CHECK(generate(*on.vulkan, given, params).sequence == generate(*on.cpu, given, params).sequence);
}

TEST_CASE("autoregressive text is the same, greedy and drawn") {
    const std::string path   = find_model(bundled_autoregressive_model);
    const Vocab       vocab  = Vocab::load(path);
    const Devices     on     = on_both(path, exact_params());
    GenerateParams    params = plain_params();
    check_text(on, vocab, params);
    params.temperature = 0.7f;
    params.top_k       = 20;
    params.seed        = 3;
    check_text(on, vocab, params);
}

TEST_CASE("guidance writes the same text") {
    const std::string path = find_model(bundled_diffusion_model);
    ContextParams     context;
    GenerateParams    params = plain_params();
    params.cfg_scale         = 0.5f;
    context.n_ctx            = 128;
    context.n_sequences      = sequence_count(params);
    const Devices on         = on_both(path, context);
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
        model.block_length  = 8;
        const Devices on    = on_both(random_gguf(model), exact_params());
        const auto    given = random_tokens(13, 256);
        const auto    check = [&](const GenerateParams & params) {
            CHECK(generate(*on.vulkan, given, params).sequence == generate(*on.cpu, given, params).sequence);
        };
        for (const DiffusionCache cache : {DiffusionCache::none, DiffusionCache::prefix, DiffusionCache::dual}) {
            CAPTURE(static_cast<int>(cache));
            GenerateParams params;
            params.n_predict = 16;
            params.cache     = cache;
            check(params);
            params.threshold = 0.02f;
            if (arch == "fast-dllm-v2") {
                params.sub_block_length = 4;
            } else {
                params.edit_threshold = 0.02f;
            }
            check(params);
        }
    }
}
