#include "support/vulkan.h"

#include "buoy/device.h"
#include "engine/ggml-context.h"
#include "engine/graph-splits.h"
#include "support/oracle.h"
#include "support/random-context.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>

namespace buoy::test {

namespace {

constexpr const char * device_name = "Vulkan0";

double logits_nmse_max() { return is_exact() ? 1e-6 : 1e-4; }

double pattern_diff_max() { return is_exact() ? 1e-3 : 2e-3; }

std::unique_ptr<Context> load_on(const std::string & device, const std::string & path, const ContextParams & params) {
    TestModel model;
    model.path         = path;
    model.devices      = {device};
    model.n_gpu_layers = device == device_name ? 1000 : 0;
    return load_context(model, params);
}

void check_same(const Seen & actual, const Seen & expected, double diff_max) {
    CHECK(actual.shape == expected.shape);
    REQUIRE(actual.data.size() == expected.data.size());
    std::vector<float> a, b; // without what is -inf on both
    for (size_t i = 0; i < actual.data.size(); i++) {
        if (std::isinf(expected.data[i]) && actual.data[i] == expected.data[i]) {
            continue;
        }
        a.push_back(actual.data[i]);
        b.push_back(expected.data[i]);
    }
    if (diff_max > 0.0) {
        CHECK(max_abs_diff(a, b) <= diff_max);
    } else {
        CHECK(nmse(a, b) <= logits_nmse_max());
    }
}

} // namespace

bool is_exact() { return std::getenv("GGML_VK_DISABLE_F16") != nullptr; }

bool has_vulkan() {
    const std::vector<DeviceInfo> devices = list_devices();
    return std::any_of(devices.begin(), devices.end(),
                       [](const DeviceInfo & info) { return info.name == device_name; });
}

Devices on_both(const std::string & path, const ContextParams & params) {
    return {load_on("none", path, params), load_on(device_name, path, params)};
}

std::vector<std::string> fallen_back(Context & context, const Batch & batch) {
    auto &                ours = dynamic_cast<GgmlContext &>(context);
    std::set<std::string> names;
    ours.forward(batch);
    for (int i = 0; i < ggml_graph_n_nodes(ours.graph()->cgraph()); i++) {
        const ggml_tensor * node = ggml_graph_node(ours.graph()->cgraph(), i);
        if (is_view(node)) {
            continue;
        }
        const auto device = ggml_backend_buft_get_device(ggml_backend_buffer_get_type(node->buffer));
        if (device == nullptr || std::string(ggml_backend_dev_name(device)) != device_name) {
            names.insert(std::string(ggml_op_desc(node)) + " " + node->name);
        }
    }
    return {names.begin(), names.end()};
}

void check_logits(const Devices & on, const Batch & batch) {
    CHECK(fallen_back(*on.vulkan, batch) == std::vector<std::string>{});
    check_near(on, batch);
}

void check_near(const Devices & on, const Batch & batch) {
    const std::vector<float> expected = on.cpu->forward(batch)[0].logits;
    const std::vector<float> actual   = on.vulkan->forward(batch)[0].logits;
    REQUIRE(!expected.empty());
    CHECK(count_far(actual, expected, static_cast<size_t>(on.cpu->info().n_vocab)) == 0);
}

size_t count_far(const std::vector<float> & actual, const std::vector<float> & expected, size_t n_vocab) {
    REQUIRE(actual.size() == expected.size());
    size_t n_far = 0;
    for (size_t at = 0; at < actual.size(); at += n_vocab) {
        const auto row = [&](const std::vector<float> & all) {
            const auto first = all.begin() + static_cast<ptrdiff_t>(at);
            return std::vector<float>(first, first + static_cast<ptrdiff_t>(n_vocab));
        };
        n_far += nmse(row(actual), row(expected)) <= logits_nmse_max() ? 0 : 1;
    }
    return n_far;
}

void check_taps(const Devices & on, Batch batch, const std::vector<TapPoint> & taps) {
    for (ForwardRequest & request : batch) {
        observer(request).taps = taps;
        observer(request).sink = [](const TapEvent &) {};
    }
    CHECK(fallen_back(*on.vulkan, batch) == std::vector<std::string>{});
    check_shown(on, batch, taps);
}

void check_shown(const Devices & on, const Batch & batch, const std::vector<TapPoint> & taps) {
    const TapLog expected = observe(*on.cpu, batch, taps);
    const TapLog actual   = observe(*on.vulkan, batch, taps);
    REQUIRE(actual.size() == expected.size());
    for (const auto & [key, seen] : expected) {
        CAPTURE(key);
        const bool is_pattern = key.find("hook_pattern") != std::string::npos;
        check_same(actual.at(key), seen, is_pattern ? pattern_diff_max() : 0.0);
    }
}

void check_text(const Devices & on, const Vocab & vocab, GenerateParams params) {
    params.end_ids            = vocab.end_ids();
    const auto       prompt   = vocab.encode_chat({{"user", "Tell a story about Mira and a fox."}}, true);
    const Generation expected = generate(*on.cpu, prompt, params);
    const Generation actual   = generate(*on.vulkan, prompt, params);
    CHECK(!expected.tokens.empty());
    CHECK(vocab.decode(actual.tokens) == vocab.decode(expected.tokens));
    CHECK(actual.n_forward == expected.n_forward);
}

} // namespace buoy::test
