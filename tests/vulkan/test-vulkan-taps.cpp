// What taps show on Vulkan: every tap, reduction and selection, whole passes and parts, two streams, with edits.

#include "support/oracle.h"
#include "support/random-context.h"
#include "support/vulkan.h"

#include <doctest/doctest.h>

#include <limits>

using namespace buoy;
using namespace buoy::test;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

// Of the first layer and of the last, which drops rows that nobody asked for.
std::vector<TapPoint> every_tap() {
    std::vector<TapPoint> taps;
    for (int32_t layer : {0, 2}) {
        for (Tap tap : {Tap::attn_scores, Tap::pattern, Tap::rot_q, Tap::rot_k, Tap::v, Tap::resid_post}) {
            taps.push_back({tap, layer});
        }
        for (TapReduce reduce : {TapReduce::heads, TapReduce::received, TapReduce::regions}) {
            taps.push_back({Tap::pattern, layer, reduce});
        }
    }
    return taps;
}

const TapSelection whole  = {{}, {}, {{0}, {3, 4, 5, 6, 12}, {6, 7, 8, 9, 10, 11, 20, 21, 300}}};
const TapSelection chosen = {{0, 2, 3}, {1, 5, 6, 7}, whole.regions};

ContextParams with_flash(ContextParams params) {
    params.flash = FlashAttention::on;
    return params;
}

} // namespace

TEST_CASE("every tap and reduction of whole passes") {
    for (const RandomModel & model : {small_model("llada"), small_model("llama"), small_model("qwen3", 4)}) {
        CAPTURE(model.arch);
        const std::string path = random_gguf(model);
        for (const ContextParams & params : {exact_params(), with_flash(exact_params())}) {
            const Devices on = on_both(path, params);
            for (const KvUse kv : {KvUse::none, KvUse::store}) {
                for (const TapSelection & selection : {whole, chosen}) {
                    ForwardRequest request      = whole_request(random_tokens(23, 256));
                    request.kv                  = kv;
                    request.rows                = {0, 4};
                    observer(request).selection = selection;
                    check_taps(on, request, every_tap());
                }
            }
        }
    }
}

TEST_CASE("taps of a part against stored keys and values") {
    const auto    tokens = random_tokens(50, 256);
    ContextParams f16    = exact_params();
    f16.type_k = f16.type_v = KvType::f16;
    for (const ContextParams & params : {exact_params(), f16}) {
        const Devices on = on_both(random_gguf(small_model("llada")), params);
        on.cpu->forward(stored_part(tokens, 0, 50));
        on.vulkan->forward(stored_part(tokens, 0, 50));
        for (const auto & [first, last] : {std::pair(16, 50), std::pair(16, 24)}) {
            ForwardRequest part      = stored_part(tokens, first, last);
            observer(part).selection = chosen;
            check_taps(on, part, every_tap());
        }
    }
}

TEST_CASE("taps of two sequences") {
    ContextParams params     = exact_params();
    params.n_sequences       = 2;
    const Devices  on        = on_both(random_gguf(small_model("llada")), params);
    ForwardRequest both      = whole_request(random_tokens(23, 256, 1));
    const auto     un        = random_tokens(23, 256, 2);
    observer(both).selection = chosen;
    check_taps(on, two_sequences(both, un, 1.5f), every_tap());
    check_logits(on, two_sequences(both, un, 1.5f));
    both.kv = KvUse::store;
    check_taps(on, two_sequences(both, un, 1.5f), every_tap());
    check_logits(on, two_sequences(both, un, 1.5f));
}

TEST_CASE("edited layers") {
    for (const RandomModel & model : {small_model("llada"), small_model("qwen3", 4)}) {
        CAPTURE(model.arch);
        for (const ContextParams & params : {exact_params(), with_flash(exact_params())}) {
            const Devices on = on_both(random_gguf(model), params);
            for (const KvUse kv : {KvUse::none, KvUse::store}) {
                ForwardRequest request      = whole_request(random_tokens(23, 256));
                request.kv                  = kv;
                observer(request).selection = whole;
                request.edits               = {{0, {}, {}, {2, 3}, -inf}, {2, {}, {}, {1}, 3.0f}};
                check_taps(on, request, every_tap());
                check_logits(on, request);
                request.edits.push_back({2, {1, 3}, {5, 6}, {2, 3, 4}, -1.5f}); // heads differ
                check_taps(on, request, every_tap());
                check_logits(on, request);
            }
        }
    }
}

TEST_CASE("edits that the unedited pattern decides on") {
    const Devices  on        = on_both(random_gguf(small_model("llada")), exact_params());
    ForwardRequest request   = whole_request(random_tokens(23, 256));
    observer(request).probed = {0, 2};
    observer(request).probe  = [](int32_t layer, const std::vector<int32_t> & keys, const float * received) {
        const bool seen = std::all_of(received, received + keys.size(), [](float share) { return share > 0.0f; });
        return std::vector<AttentionEdit>{{layer, {0, 1}, {}, {keys[seen ? 3 : 0]}, -inf}};
    };
    observer(request).selection = whole;
    check_taps(on, request, every_tap());
    check_logits(on, request);
}
