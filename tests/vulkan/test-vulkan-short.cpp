// The part of the Vulkan tests that CI runs: a pass, what it shows, edits, the text of both twins. Most of its time is the driver
// compiling shaders.

#include "buoy/bundled.h"
#include "support/batch.h"
#include "support/one-split.h"
#include "support/oracle.h"
#include "support/random-context.h"
#include "support/vulkan.h"

#include <doctest/doctest.h>

using namespace buoy;
using namespace buoy::test;

TEST_CASE("short: a pass stays on the device, is near the CPU's, shows the same and can be edited") {
    RandomModel    model;
    const Devices  on      = on_both(random_gguf(model), exact_params());
    ForwardRequest request = whole_request(random_tokens(22, 256));
    check_one_split(*on.vulkan, "Vulkan0");
    on.vulkan->kv_truncate(0, 0);
    for (const KvUse kv : {KvUse::none, KvUse::store}) {
        request.kv = kv;
        request.edits.clear();
        check_logits(on, request);
        observer(request).selection.regions = {{0, 1, 2}, {5, 6, 20}};
        request.edits                       = {{1, {}, {}, {2, 3}, 2.0f}};
        check_taps(on, request,
                   {{Tap::attn_scores, 0},
                    {Tap::pattern, 0},
                    {Tap::pattern, 1, TapReduce::heads},
                    {Tap::pattern, 1, TapReduce::received},
                    {Tap::pattern, 1, TapReduce::regions},
                    {Tap::rot_q, 0},
                    {Tap::rot_k, 0},
                    {Tap::v, 0},
                    {Tap::resid_post, 1}});
    }
}

TEST_CASE("short: a batch of sequences equals single passes") {
    const std::string path = random_gguf(small_model("llada"));
    check_batch(*on_both(path, many_sequences()).vulkan, *on_both(path, many_sequences()).vulkan,
                1e-4); // factors of products are rounded to F16, where there are many rows
}

TEST_CASE("short: both twins write the same text") {
    for (const std::string name : {bundled_diffusion_model, bundled_autoregressive_model}) {
        CAPTURE(name);
        ContextParams context;
        context.n_ctx          = 128;
        const std::string path = find_model(name);
        GenerateParams    params;
        params.n_predict = 8;
        if (name == bundled_diffusion_model) {
            params.steps = 2; // every number of rows up to 8 has shaders of its own
        }
        check_text(on_both(path, context), Vocab::load(path), params);
    }
}
