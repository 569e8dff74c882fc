// LLaDA-MoE with a shared expert, for which there is no checkpoint: where the chosen experts add nothing, the shared one alone is an
// ordinary feed-forward layer.

#include "buoy/context.h"
#include "convert.h"
#include "support/hf-dir.h"
#include "support/oracle.h"
#include "support/paths.h"
#include "support/random-context.h"

#include <doctest/doctest.h>

#include <random>

using namespace buoy;
using namespace buoy::test;

namespace {

constexpr int64_t n_embd = 32, n_ff = 64, n_ff_expert = 16, n_expert = 4;

HfDir dense_model() {
    HfDir dir                                     = tiny_checkpoint("Qwen3ForCausalLM"); // the same attention
    dir.config["architectures"]                   = {"LLaDAMoEModelLM"};
    dir.config["dense_intermediate_size"]         = n_ff;
    dir.config["expert_intermediate_size"]        = n_ff_expert;
    dir.config["num_experts"]                     = n_expert;
    dir.config["num_experts_per_tok"]             = 2;
    dir.config["moe_layer_freq"]                  = {0, 0};
    dir.config["shared_expert_intermediate_size"] = nullptr;
    dir.config.erase("intermediate_size");
    return dir;
}

HfTensor random_tensor(const std::string & name, const std::vector<int64_t> & shape, float scale) {
    static std::minstd_rand         random(3);
    std::normal_distribution<float> normal;
    HfTensor                        tensor{name, shape, {}, "F32"};
    for (int64_t i = 0; i < shape[0] * shape[1]; i++) {
        tensor.values.push_back(scale * normal(random));
    }
    return tensor;
}

// The feed-forward layers become shared experts beside experts whose outputs are `scale` times random numbers.
HfDir shared_model(float scale) {
    HfDir dir                                     = dense_model();
    dir.config["moe_layer_freq"]                  = {1, 1};
    dir.config["shared_expert_intermediate_size"] = n_ff;
    for (int layer = 0; layer < 2; layer++) {
        const std::string prefix = "model.layers." + std::to_string(layer) + ".";
        for (const char * part : {"gate", "up", "down"}) {
            dir.tensor(prefix + "mlp." + part + "_proj.weight").name =
                prefix + "shared_expert." + part + "_proj.weight";
        }
        dir.tensors.push_back(random_tensor(prefix + "mlp.gate.weight", {n_expert, n_embd}, 1.0f));
        for (int64_t x = 0; x < n_expert; x++) {
            const std::string expert = prefix + "mlp.experts." + std::to_string(x) + ".";
            dir.tensors.push_back(random_tensor(expert + "gate_proj.weight", {n_ff_expert, n_embd}, 1.0f));
            dir.tensors.push_back(random_tensor(expert + "up_proj.weight", {n_ff_expert, n_embd}, 1.0f));
            dir.tensors.push_back(random_tensor(expert + "down_proj.weight", {n_embd, n_ff_expert}, scale));
        }
    }
    return dir;
}

std::vector<float> logits_of(const HfDir & dir) {
    ConvertParams convert;
    convert.input   = dir.write();
    convert.output  = temp_dir() + "/out.gguf";
    convert.outtype = OutType::f32;
    convert_hf(convert);
    TestModel params;
    params.path = convert.output;
    return load_context(params, exact_params())->forward(whole_request({3, 1, 4, 1, 5, 9, 2, 6})).logits;
}

} // namespace

TEST_CASE("a shared expert is added to the chosen ones as it is") {
    const std::vector<float> dense = logits_of(dense_model());
    CHECK(nmse(logits_of(shared_model(0.0f)), dense) <= 1e-12);
    CHECK(nmse(logits_of(shared_model(1.0f)), dense) >= 1e-3);
}
