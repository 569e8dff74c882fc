// What goes where without a GPU, how much fits, and what the flags refuse. With devices: test-rpc.cpp.

#include "buoy/error.h"
#include "model/fit.h"
#include "support/cli.h"
#include "support/one-split.h"
#include "support/random-context.h"

#include <doctest/doctest.h>

#include <functional>

using namespace buoy;
using namespace buoy::test;

namespace {

constexpr size_t MiB = size_t(1) << 20;

// Ten layers of 10 MiB and a head of 20.
SlotSizes ten_layers() {
    SlotSizes sizes;
    sizes.slots.assign(10, 10 * MiB);
    sizes.slots.push_back(20 * MiB);
    sizes.embed = 15 * MiB;
    return sizes;
}

RandomModel small_experts() {
    RandomModel model;
    model.arch    = "llada-moe";
    model.n_layer = 3;
    return model;
}

std::string load_error(const std::function<void(TestModel &)> & change, std::vector<std::string> * warnings = nullptr) {
    TestModel model;
    model.path = random_gguf(small_experts());
    model.log  = [&](LogLevel level, const std::string & text) {
        if (warnings != nullptr && level == LogLevel::warn) {
            warnings->push_back(text);
        }
    };
    change(model);
    try {
        load_context(model, exact_params());
        return "";
    } catch (const Error & error) {
        CHECK(error.kind() == ErrorKind::request);
        return error.what();
    }
}

} // namespace

TEST_CASE("layers are divided by shares, in order") {
    CHECK(divide_slots(4, {1}) == std::vector<size_t>{0, 0, 0, 0});
    CHECK(divide_slots(4, {1, 1}) == std::vector<size_t>{0, 0, 1, 1});
    CHECK(divide_slots(4, {3, 1}) == std::vector<size_t>{0, 0, 0, 1});
    CHECK(divide_slots(4, {0, 1}) == std::vector<size_t>{1, 1, 1, 1});
    CHECK(divide_slots(4, {1, 0, 1}) == std::vector<size_t>{0, 0, 2, 2});
    CHECK(divide_slots(0, {1, 1}).empty());
}

TEST_CASE("what fits is counted with K/V, compute buffers and the embedding") {
    const SlotSizes sizes = ten_layers();
    const MemoryUse none;
    CHECK(count_fitting(sizes, none, {135 * MiB}, {1}) == 11); // everything: 10 · 10 + 20 + 15
    CHECK(count_fitting(sizes, none, {135 * MiB - 1}, {1}) == 10);
    CHECK(count_fitting(sizes, none, {50 * MiB}, {1}) == 4); // the head and three layers
    CHECK(count_fitting(sizes, none, {20 * MiB - 1}, {1}) == 0);

    MemoryUse use;
    use.kv_per_layer = 5 * MiB;
    use.compute      = 30 * MiB;
    use.compute_head = 8 * MiB;
    CHECK(count_fitting(sizes, use, {58 * MiB}, {1}) == 1); // 20 + 30 + 8
    CHECK(count_fitting(sizes, use, {58 * MiB - 1}, {1}) == 0);
    CHECK(count_fitting(sizes, use, {103 * MiB}, {1}) == 4); // and three of 15
}

TEST_CASE("what fits on several devices is what fits on each") {
    const SlotSizes sizes = ten_layers();
    const MemoryUse none;
    // 6 slots each but the last: 5 layers and the embedding, 5 layers and the head
    CHECK(count_fitting(sizes, none, {75 * MiB, 70 * MiB}, {1, 1}) == 11);
    // a device without a share holds nothing, however large it is
    CHECK(count_fitting(sizes, none, {1000 * MiB, 40 * MiB}, {0, 1}) == 3);
}

TEST_CASE("on a CPU alone a decoding step is one split") {
    for (const char * arch : {"llada", "llada-moe", "qwen3"}) {
        CAPTURE(arch);
        RandomModel model;
        model.arch = arch;
        for (const ContextParams & params : {ContextParams(), exact_params()}) {
            const auto context = random_context(model, params);
            check_one_split(*context, "CPU");
            CHECK(devices_of(*context, "") == std::vector<std::string>{"CPU"});
        }
    }
}

TEST_CASE("the engine over libllama tells the same") {
    TestModel   model;
    RandomModel random;
    random.arch        = "qwen3";
    model.path         = random_gguf(random);
    const auto context = load_llama_context(model, exact_params());
    CHECK(context->placed_weights().empty());
    check_one_split(*context, "CPU");
    CHECK(devices_of(*context, "") == std::vector<std::string>{"CPU"});
    CHECK(devices_of(*context, "blk.1.attn_q.weight").size() == 1);
}

TEST_CASE("what can't be placed is refused, what has no effect is told") {
    CHECK(load_error([](TestModel & m) { m.devices = {"CUDA7"}; }) ==
          "`devices`: unknown device 'CUDA7', the devices are: CPU");
    CHECK(load_error([](TestModel & m) {
              m.overrides = {{"(", "CPU"}};
          }).find("'(' is an invalid regular expression") != std::string::npos);
    CHECK(load_error([](TestModel & m) {
              m.overrides = {{"ffn", "GPU"}};
          }) == "`overrides`: unknown device 'GPU', the devices are: CPU");

    std::vector<std::string> warnings;
    CHECK(load_error([](TestModel & m) { m.overrides = {{"nothing", "CPU"}}; }, &warnings).empty());
    CHECK(load_error([](TestModel & m) { m.n_gpu_layers = 3; }, &warnings).empty());
    CHECK(load_error([](TestModel & m) { m.path = random_gguf({}), m.n_cpu_moe = 1; }, &warnings).empty());
    REQUIRE(warnings.size() == 3);
    CHECK(warnings[0] == "`overrides` has no effect: no tensor's name matches 'nothing'");
    CHECK(warnings[1] == "`n_gpu_layers` 3 has no effect: no GPU device was found, running on the CPU");
    CHECK(warnings[2] == "`n_cpu_moe` has no effect: the model has no experts");
}

TEST_CASE("shares without a device are told, and none is no device among others") {
    std::vector<std::string> warnings;
    CHECK(load_error(
              [](TestModel & model) {
                  model.devices      = {"none"};
                  model.tensor_split = {1, 1};
              },
              &warnings)
              .empty());
    REQUIRE(warnings.size() == 1);
    CHECK(warnings[0] == "`tensor_split` has no effect: no GPU device is in use");
    CHECK(load_error([](TestModel & model) {
              model.devices = {"none", "CPU"};
          }) == "`devices`: none can't be combined with other devices");
}

TEST_CASE("flags of devices that say nothing sensible are refused in one line") {
    const Args run = {"-m", tiny_model("llada"), "-p", "a", "-n", "4"};
    check_refused(cli(run + Args{"-ngl", "some"}), "'some' is not a number of layers, auto or all");
    check_refused(cli(run + Args{"-ngl", "-5"}), "-5");
    check_refused(cli(run + Args{"-ts", "1,x"}), "'x' is not a share");
    check_refused(cli(run + Args{"-ts", "1,-1"}), "'-1' is not a share");
    check_refused(cli(run + Args{"-ot", "ffn"}), "'ffn' is not REGEX=DEVICE");
    check_refused(cli(run + Args{"-ot", "ffn=CPU,=CPU"}), "'=CPU' is not REGEX=DEVICE");
    check_refused(cli(run + Args{"-ot", "[=CPU"}), "is an invalid regular expression");
    check_refused(cli(run + Args{"-ot", "ffn=Vulkan9"}), "unknown device 'Vulkan9'");
    check_refused(cli(run + Args{"-dev", "CUDA9"}), "unknown device 'CUDA9'");
    check_refused(cli(run + Args{"-sm", "row"}), "'row' is not one of none|layer");
    check_refused(cli(run + Args{"-ncmoe", "-1"}), "-1");
    CHECK(cli(run + Args{"-ngl", "auto", "-sm", "layer", "-ot", "ffn=CPU", "-dev", "none"}).code == 0);
    CHECK(cli(run + Args{"-ngl", "all"}).err ==
          "llama-diffusion-cli: warning: -ngl all has no effect: no GPU device was found, running on the CPU\n");
    CHECK(cli(run, "", {{"LLAMA_ARG_N_GPU_LAYERS", "auto"}, {"LLAMA_ARG_SPLIT_MODE", "none"}}).code == 0);
    check_refused(cli(run, "", {{"LLAMA_ARG_TENSOR_SPLIT", "x"}}), "LLAMA_ARG_TENSOR_SPLIT");
}

TEST_CASE("-v tells once how graphs are divided") {
    const ProgramResult result = cli({"-m", tiny_model("llada"), "-p", "abc", "-n", "8", "-v"});
    CHECK(result.code == 0);
    const size_t first = result.err.find(" in 1 split: ");
    REQUIRE(first != std::string::npos);
    CHECK(result.err.find(" in 1 split: ", first + 1) == std::string::npos);
}

TEST_CASE("a backend that can't be loaded is one warning") {
    const ProgramResult result =
        cli({"-m", tiny_model("llada"), "-p", "abc", "-n", "4"}, "", {{"GGML_BACKEND_PATH", "/nonexistent/ggml.so"}});
    CHECK(result.code == 0);
    CHECK(result.err.find("warning: ") != std::string::npos);
    CHECK(result.err.find("/nonexistent/ggml.so") != std::string::npos);
}
