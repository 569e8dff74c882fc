#include "arch.h"

#include "buoy/message.h"

#include <algorithm>

namespace buoy {

namespace {

constexpr Reorder none   = Reorder::none;
constexpr Need    must   = Need::required;
constexpr Layers  dense  = Layers::dense;
constexpr Layers  sparse = Layers::sparse;

} // namespace

ArchMapping find_mapping(const HfJson & config) {
    const std::string wanted = hf_architecture(config);
    std::string       known;
    for (ArchMapping & mapping : all_mappings()) {
        for (const char * name : mapping.hf_names) {
            if (wanted == name) {
                return mapping;
            }
            known += concat(known.empty() ? "" : ", ", name);
        }
    }
    fail(config.path(), ": architecture '", wanted, "' is not known; known: ", known);
}

bool ArchMapping::has_experts() const {
    return std::any_of(tensors.begin(), tensors.end(),
                       [](const TensorRule & rule) { return rule.layers == Layers::sparse || rule.stacked; });
}

std::vector<TensorRule> transformer_rules(Reorder reorder_q, Reorder reorder_k) {
    return {
        {"model.norm.weight", "output_norm.weight", Dim::embd},
        {"model.layers.{}.input_layernorm.weight", "blk.{}.attn_norm.weight", Dim::embd},
        {"model.layers.{}.self_attn.q_proj.weight", "blk.{}.attn_q.weight", Dim::q, Dim::embd, reorder_q},
        {"model.layers.{}.self_attn.k_proj.weight", "blk.{}.attn_k.weight", Dim::kv, Dim::embd, reorder_k},
        {"model.layers.{}.self_attn.v_proj.weight", "blk.{}.attn_v.weight", Dim::kv, Dim::embd},
        {"model.layers.{}.self_attn.o_proj.weight", "blk.{}.attn_output.weight", Dim::embd, Dim::q},
        {"model.layers.{}.post_attention_layernorm.weight", "blk.{}.ffn_norm.weight", Dim::embd},
        {"model.layers.{}.mlp.gate_proj.weight", "blk.{}.ffn_gate.weight", Dim::ff, Dim::embd, none, must, dense},
        {"model.layers.{}.mlp.up_proj.weight", "blk.{}.ffn_up.weight", Dim::ff, Dim::embd, none, must, dense},
        {"model.layers.{}.mlp.down_proj.weight", "blk.{}.ffn_down.weight", Dim::embd, Dim::ff, none, must, dense},
    };
}

std::vector<TensorRule> qwen3_attention_rules() {
    return {
        {"model.layers.{}.self_attn.q_norm.weight", "blk.{}.attn_q_norm.weight", Dim::head},
        {"model.layers.{}.self_attn.k_norm.weight", "blk.{}.attn_k_norm.weight", Dim::head},
        {"model.layers.{}.self_attn.o_proj.bias", "blk.{}.attn_output.bias", Dim::embd, Dim::none, none,
         Need::optional},
    };
}

std::vector<TensorRule> expert_rules() {
    return {
        {"model.layers.{}.mlp.gate.weight", "blk.{}.ffn_gate_inp.weight", Dim::expert, Dim::embd, none, must, sparse},
        {"model.layers.{}.mlp.experts.{x}.gate_proj.weight", "blk.{}.ffn_gate_exps.weight", Dim::ff_expert, Dim::embd,
         none, must, sparse},
        {"model.layers.{}.mlp.experts.{x}.up_proj.weight", "blk.{}.ffn_up_exps.weight", Dim::ff_expert, Dim::embd, none,
         must, sparse},
        {"model.layers.{}.mlp.experts.{x}.down_proj.weight", "blk.{}.ffn_down_exps.weight", Dim::embd, Dim::ff_expert,
         none, must, sparse},
    };
}

std::vector<TensorRule> qkv_bias_rules(Reorder reorder_q, Reorder reorder_k, Need need) {
    return {
        {"model.layers.{}.self_attn.q_proj.bias", "blk.{}.attn_q.bias", Dim::q, Dim::none, reorder_q, need},
        {"model.layers.{}.self_attn.k_proj.bias", "blk.{}.attn_k.bias", Dim::kv, Dim::none, reorder_k, need},
        {"model.layers.{}.self_attn.v_proj.bias", "blk.{}.attn_v.bias", Dim::kv, Dim::none, Reorder::none, need},
    };
}

void append(std::vector<TensorRule> & rules, const std::vector<TensorRule> & more) {
    rules.insert(rules.end(), more.begin(), more.end());
}

void expect_setting(const HfJson & config, const char * key, const nlohmann::json & expected) {
    const nlohmann::json * value = config.find({key});
    if (value != nullptr && *value != expected) {
        fail(config.path(), ": '", key, "' is ", value->is_structured() ? value->type_name() : value->dump(), ", only ",
             expected.dump(), " can be converted");
    }
}

} // namespace buoy
