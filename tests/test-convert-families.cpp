// One family's checkpoint under another's name: what two architectures share must come out the same, and what a config leaves out or
// gets wrong is filled in or told.

#include "buoy/context.h"
#include "buoy/error.h"
#include "convert.h"
#include "io/gguf-file.h"
#include "io/json-file.h"
#include "support/oracle.h"
#include "support/paths.h"
#include "support/random-context.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <functional>

using namespace buoy;
using namespace buoy::test;

namespace {

namespace fs = std::filesystem;
using Json   = nlohmann::json;

// The oracle's checkpoint with another config.
std::string convert_changed(const std::string & name, const std::function<void(Json &)> & change) {
    const std::string dir = temp_dir() + "/hf";
    fs::create_directories(dir);
    for (const auto & entry : fs::directory_iterator(Oracle(name).dir)) {
        const fs::path link = fs::path(dir) / entry.path().filename();
        if (entry.path().filename() != "config.json" && !fs::exists(link)) {
            fs::create_symlink(fs::absolute(entry.path()), link);
        }
    }
    Json config = load_json(Oracle(name).dir + "/config.json");
    change(config);
    std::ofstream(dir + "/config.json") << config.dump();
    ConvertParams params;
    params.input   = dir;
    params.output  = temp_dir() + "/changed.gguf";
    params.outtype = OutType::f32;
    params.force   = true;
    convert_hf(params);
    return params.output;
}

std::string error_of(const std::string & name, const std::function<void(Json &)> & change) {
    try {
        convert_changed(name, change);
    } catch (const Error & error) {
        return error.what();
    }
    return "no error";
}

struct Logits {
    AttentionKind      attention;
    std::vector<float> values;
};

Logits logits_of(const std::string & path, const Oracle & oracle, int32_t block_length) {
    TestModel model;
    model.path             = path;
    const auto     context = load_context(model, exact_params());
    ForwardRequest request = whole_request(oracle.ids("input_ids"));
    request.block_length   = block_length;
    return {context->info().traits.attention, context->forward(request).logits};
}

} // namespace

TEST_CASE("convert families: models made of autoregressive ones equal those made from the start") {
    const struct {
        const char * oracle;
        const char * named;
        int32_t      block_length; // of the config
    } cases[] = {
        {"sdar", "A2DQwen3LMHeadModel", 4},
        {"fast-dllm-v2", "A2DQwen2LMHeadModel", 8},
        {"rnd1", "SDARMoeForCausalLM", 64}, // one block is full attention
    };
    for (const auto & c : cases) {
        CAPTURE(std::string(c.named));
        const Oracle oracle(c.oracle);
        const auto   path = convert_changed(c.oracle, [&](Json & config) {
            config["architectures"] = {c.named};
            config["block_size"]    = c.block_length;
        });
        const Logits out  = logits_of(path, oracle, 0);
        CHECK(out.attention == AttentionKind::block_causal);
        CHECK(nmse(out.values, oracle.floats("logits")) <= 1e-8);
    }
    const Oracle oracle("dream"); // Qwen2's body with full attention
    const auto   path =
        convert_changed("dream", [](Json & config) { config["architectures"] = {"A2DQwen2LMHeadModel"}; });
    const Logits out = logits_of(path, oracle, 0);
    CHECK(out.attention == AttentionKind::full);
    CHECK(nmse(out.values, oracle.floats("logits")) <= 1e-8);
}

TEST_CASE("convert families: what the config says, or what its authors assume") {
    const auto number = [](const std::string & path, const char * key) {
        return GgufFile::open(path).get_int(key).value_or(-1);
    };
    const auto same = [](Json &) {};
    CHECK(number(convert_changed("sdar", same), "diffusion.block_length") == 4);
    CHECK(number(convert_changed("sdar", [](Json & c) { c["block_size"] = 16; }), "diffusion.block_length") == 16);
    CHECK(number(convert_changed("fast-dllm-v2", same), "diffusion.block_length") == 8);
    CHECK(number(convert_changed("fast-dllm-v2", [](Json & c) { c.erase("bd_size"); }), "diffusion.block_length") ==
          32);
    const std::string llada2 = convert_changed("llada2-moe", same);
    CHECK(number(llada2, "diffusion.block_length") == 32);
    CHECK(number(llada2, "llada2.rope.dimension_count") == 16);
    CHECK(number(llada2, "llada2.leading_dense_block_count") == 1);
    CHECK(number(llada2, "llada2.expert_gating_func") == 2);
    CHECK(number(llada2, "llada2.expert_group_count") == 4);
    // its code always makes weights sum to one, LLaDA-MoE's never does, Qwen's asks the config
    CHECK(GgufFile::open(llada2).get_bool("llada2.expert_weights_norm") == true);
    CHECK(GgufFile::open(convert_changed("llada-moe", [](Json & c) {
              c["norm_topk_prob"] = true;
          })).get_bool("llada-moe.expert_weights_norm") == false);
    const std::string unnormed = convert_changed("rnd1", [](Json & c) { c["norm_topk_prob"] = false; });
    const Oracle      rnd1("rnd1");
    CHECK(GgufFile::open(unnormed).get_bool("rnd1.expert_weights_norm") == false);
    CHECK(nmse(logits_of(unnormed, rnd1, 0).values, rnd1.floats("logits")) > 1e-3); // and the engine heeds it
}

TEST_CASE("convert families: experts that don't fit the config") {
    const auto says = [](const std::string & text, const std::string & part) {
        CAPTURE(text);
        CHECK(text.find(part) != std::string::npos);
        CHECK(text.find('\n') == std::string::npos);
    };
    says(error_of("llada-moe", [](Json & c) { c["num_experts"] = 9; }), "[8, 64], the config makes it [9, 64]");
    says(error_of("llada-moe", [](Json & c) { c["num_experts_per_tok"] = 9; }), "expected 1 to 8");
    says(error_of("llada-moe", [](Json & c) { c["expert_intermediate_size"] = 33; }), "the config makes it [33, 64]");
    says(error_of("llada-moe",
                  [](Json & c) {
                      c["moe_layer_freq"] = {0, 1, 1};
                  }),
         "model.layers.0.mlp.gate_proj.weight");
    says(error_of("llada-moe", [](Json & c) { c["moe_layer_freq"] = {1, 1}; }), "'moe_layer_freq' has 2 entries");
    says(error_of("llada-moe", [](Json & c) { c["moe_router_score_function"] = "sigmoid"; }), "only \"softmax\"");
    says(error_of("llada2-moe", [](Json & c) { c["n_group"] = 3; }), "8 experts in 3 groups");
    says(error_of("llada2-moe", [](Json & c) { c["first_k_dense_replace"] = 0; }), "model.layers.0.mlp.gate.weight");
    says(error_of("llada2-moe", [](Json & c) { c["partial_rotary_factor"] = 1.5; }), "'partial_rotary_factor' is 1.5");
    says(error_of("llada2-moe", [](Json & c) { c["num_shared_experts"] = 2; }), "the config makes it [64, 64]");
    says(error_of("rnd1", [](Json & c) { c["decoder_sparse_step"] = 0; }), "'decoder_sparse_step' is 0");
    says(error_of("sdar", [](Json & c) { c["block_size"] = 0; }), "'block_size' is 0");
}
