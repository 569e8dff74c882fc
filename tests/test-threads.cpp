// Several contexts on one model, each in a thread of its own. Also run under ThreadSanitizer (scripts/test.sh --threads): ggml is not
// instrumented and its own threads would look like races, so each context has one.

#include "buoy/generate.h"
#include "support/batch.h"
#include "support/oracle.h"

#include <doctest/doctest.h>

#include <thread>

using namespace buoy;
using namespace buoy::test;

TEST_CASE("contexts on one model compute and generate at the same time what they do one after the other") {
    for (const RandomModel & model : attention_kinds()) {
        CAPTURE(model.arch);
        ContextParams params = exact_params();
        params.n_threads     = 1;
        const auto loaded    = load_model(random_gguf(model), {});
        const auto tokens    = [](uint32_t seed) { return random_tokens(40, 256, seed); };
        const auto run       = [&](uint32_t seed) {
            const auto         context = loaded->make_context(params);
            std::vector<float> last;
            for (uint32_t i = 0; i < 8; i++) {
                last = context->forward(whole_request(tokens(seed + i))).logits;
            }
            GenerateParams settings;
            settings.n_predict   = 16;
            settings.temperature = 0.5f;
            settings.seed        = seed;
            for (const int32_t id : generate(*context, tokens(seed), settings).sequence) {
                last.push_back(static_cast<float>(id));
            }
            return last;
        };
        const std::vector<float> expected[] = {run(1), run(100)};
        std::vector<float>       actual[2];
        std::thread              other([&] { actual[1] = run(100); });
        actual[0] = run(1);
        other.join();
        CHECK(actual[0] == expected[0]);
        CHECK(actual[1] == expected[1]);
        CHECK(loaded->vocab().size() == model.n_vocab);
    }
}
