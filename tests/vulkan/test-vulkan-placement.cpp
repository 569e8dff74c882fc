// What goes to the Vulkan device and what stays: -ngl, -ot, --n-cpu-moe, shares and what fits, and that a pass over both is right.

#include "buoy/device.h"
#include "support/one-split.h"
#include "support/oracle.h"
#include "support/random-context.h"
#include "support/vulkan.h"

#include <doctest/doctest.h>

using namespace buoy;
using namespace buoy::test;

namespace {

using Names = std::vector<std::string>;

RandomModel experts_model() {
    RandomModel model;
    model.arch    = "llada-moe";
    model.n_layer = 4;
    model.n_used  = model.n_expert; // random routers are undecided
    return model;
}

template <typename Change> std::unique_ptr<Context> placed(const std::string & path, const Change & change) {
    TestModel model;
    model.path    = path;
    model.devices = {"Vulkan0"};
    change(model);
    return load_context(model, exact_params());
}

// The same logits as on the CPU, also with stored keys and values and from a long pass, which is built in pieces.
void check_same(const std::string & path, std::unique_ptr<Context> context) {
    const Devices on = {placed(path, [](TestModel & m) { m.devices = {"none"}; }), std::move(context)};
    for (const size_t n : {22, 600}) {
        ForwardRequest request = whole_request(random_tokens(n, 320));
        request.rows           = {0, 5, static_cast<int32_t>(n) - 1};
        check_near(on, request);
        request.kv = KvUse::store;
        check_near(on, request);
    }
}

} // namespace

TEST_CASE("the device is listed with its memory") {
    bool found = false;
    for (const DeviceInfo & device : list_devices()) {
        if (device.name == "Vulkan0") {
            found = true;
            CHECK(device.is_gpu);
            CHECK(!device.description.empty());
            CHECK(device.memory_total > 0);
            CHECK(device.memory_free > 0);
            CHECK(device.memory_free <= device.memory_total);
        }
    }
    CHECK(found);
}

TEST_CASE("-ngl counts layers from the last, and by default everything that fits goes") {
    const std::string path    = random_gguf(experts_model());
    auto              context = placed(path, [](TestModel & m) { m.n_gpu_layers = 3; }); // the head and two layers
    CHECK(devices_of(*context, "token_embd") == Names{"CPU"});
    CHECK(devices_of(*context, "blk.1.") == Names{"CPU"});
    CHECK(devices_of(*context, "blk.2.") == Names{"Vulkan0"});
    CHECK(devices_of(*context, "blk.3.") == Names{"Vulkan0"});
    CHECK(devices_of(*context, "output_norm") == Names{"Vulkan0"});
    check_same(path, std::move(context));

    context = placed(path, [](TestModel & m) { m.n_gpu_layers = 0; });
    CHECK(devices_of(*context, "") == Names{"CPU"});
    context = placed(path, [](TestModel &) {});
    CHECK(devices_of(*context, "") == Names{"Vulkan0"});
    check_one_split(*context, "Vulkan0");
    context = placed(path, [](TestModel & m) {
        m.devices  = {"Vulkan0"};
        m.main_gpu = 0;
    });
    CHECK(devices_of(*context, "") == Names{"Vulkan0"});
    context = placed(path, [](TestModel & m) { m.tensor_split = {1}; });
    CHECK(devices_of(*context, "") == Names{"Vulkan0"});
}

TEST_CASE("-ot and --n-cpu-moe take weights out of their layers") {
    const std::string path    = random_gguf(experts_model());
    auto              context = placed(path, [](TestModel & m) { m.n_cpu_moe = 2; });
    for (const std::string part : {"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"}) {
        CHECK(devices_of(*context, "blk.1." + part) == Names{"CPU"});
        CHECK(devices_of(*context, "blk.2." + part) == Names{"Vulkan0"});
    }
    CHECK(devices_of(*context, "blk.1.attn_q") == Names{"Vulkan0"});
    check_same(path, std::move(context));

    context = placed(path, [](TestModel & m) { m.overrides = {{"blk\\.0\\.attn_", "CPU"}, {"token_embd", "CPU"}}; });
    CHECK(devices_of(*context, "blk.0.attn_") == Names{"CPU"});
    CHECK(devices_of(*context, "blk.0.ffn_gate_exps") == Names{"Vulkan0"});
    CHECK(devices_of(*context, "blk.1.attn_q") == Names{"Vulkan0"});
    CHECK(devices_of(*context, "token_embd") == Names{"CPU"});
    check_same(path, std::move(context));

    context = placed(path, [](TestModel & m) {
        m.n_gpu_layers = 0;
        m.overrides    = {{"ffn_.*_exps", "Vulkan0"}};
    });
    CHECK(devices_of(*context, "ffn_up_exps") == Names{"Vulkan0"});
    CHECK(devices_of(*context, "attn_q") == Names{"CPU"});
    check_same(path, std::move(context));
}

TEST_CASE("taps and edits of layers on both devices") {
    const std::string path              = random_gguf(small_model("llada"));
    const Devices     on                = {placed(path, [](TestModel & m) { m.devices = {"none"}; }),
                                           placed(path, [](TestModel & m) { m.n_gpu_layers = 2; })}; // the head and the last layer
    ForwardRequest    request           = whole_request(random_tokens(23, 256));
    observer(request).selection.regions = {{0, 1, 2}, {5, 6, 20}};
    request.edits                       = {{0, {}, {}, {2, 3}, 2.0f}, {2, {}, {}, {1}, -1.0f}};
    std::vector<TapPoint> taps;
    for (int32_t layer : {0, 1, 2}) {
        taps.insert(taps.end(), {{Tap::attn_scores, layer},
                                 {Tap::pattern, layer},
                                 {Tap::pattern, layer, TapReduce::heads},
                                 {Tap::pattern, layer, TapReduce::received},
                                 {Tap::pattern, layer, TapReduce::regions},
                                 {Tap::rot_q, layer},
                                 {Tap::rot_k, layer},
                                 {Tap::v, layer},
                                 {Tap::resid_post, layer}});
    }
    for (const KvUse kv : {KvUse::none, KvUse::store}) {
        request.kv = kv;
        check_shown(on, request, taps);
        check_near(on, request);
    }
}
