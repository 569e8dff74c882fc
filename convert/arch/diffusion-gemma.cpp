#include "../arch.h"

#include "buoy/message.h"

#include <algorithm>
#include <cmath>

namespace buoy {

namespace {

using Json = nlohmann::json;

constexpr int64_t SIZE_MAX_32    = INT32_MAX;
constexpr int64_t CANVAS_DEFAULT = 256; // of the release

void check_diffusion_gemma(const HfJson & config) {
    expect_setting(config, "hidden_activation", "gelu_pytorch_tanh");
    expect_setting(config, "attention_bias", false);
    expect_setting(config, "attention_k_eq_v", true);
    expect_setting(config, "tie_word_embeddings", true);
    expect_setting(config, "enable_moe_block", true);
    expect_setting(config, "hidden_size_per_layer_input", 0);
    expect_setting(config, "num_kv_shared_layers", 0);
    expect_setting(config, "use_double_wide_mlp", false);
}

const Json & object_in(const HfJson & config, const char * outer, const char * inner) {
    const Json * found = config.find({outer});
    if (found == nullptr || !found->is_object() || !found->contains(inner) || !(*found)[inner].is_object()) {
        fail(config.path(), ": no object '", inner, "' in '", outer, "'");
    }
    return (*found)[inner];
}

std::vector<bool> read_sliding(const HfJson & config, int64_t n_layer) {
    const Json * types = config.find({"layer_types"});
    if (types == nullptr || !types->is_array() || static_cast<int64_t>(types->size()) != n_layer) {
        fail(config.path(), ": 'layer_types' is not a list with one entry for each of the ", n_layer, " layers");
    }
    std::vector<bool> sliding;
    for (const Json & type : *types) {
        if (type != "sliding_attention" && type != "full_attention") {
            fail(config.path(), ": an entry of 'layer_types' is ", in_quotes(type.dump()),
                 ", expected sliding_attention or full_attention");
        }
        sliding.push_back(type == "sliding_attention");
    }
    sliding.back() = false; // whatever the list says: its authors' code does the same
    return sliding;
}

// Some configs have one number for all global layers, others a table: per_layer_config: {"<layer>": {head_dim, num_key_value_heads}}.
int64_t read_of_layer(const HfJson & config, int64_t layer, bool global, const char * key, const char * global_key) {
    const Json *      table = config.find({"per_layer_config"});
    const std::string name  = std::to_string(layer);
    if (table != nullptr && table->is_object() && table->contains(name) && (*table)[name].is_object()) {
        const HfJson part(concat(config.path(), ": per_layer_config of layer ", name), (*table)[name]);
        if (part.find({key}) != nullptr) {
            return part.require_int({key}, 1, SIZE_MAX_32);
        }
    }
    return global ? config.require_int({global_key, key}, 1, SIZE_MAX_32) : config.require_int({key}, 1, SIZE_MAX_32);
}

void read_layers(const HfJson & config, HfParams & params) {
    WindowParams & window = params.window;
    window.size           = config.require_int({"sliding_window"}, 1, SIZE_MAX_32);
    window.sliding        = read_sliding(config, params.n_layer);
    params.head_dim       = 0; // of sliding layers, if there are any
    for (int64_t layer = 0; layer < params.n_layer; layer++) {
        const bool    global   = params.is_global(layer);
        int64_t &     common   = global ? window.head_dim_global : params.head_dim;
        const int64_t head_dim = read_of_layer(config, layer, global, "head_dim", "global_head_dim");
        const int64_t n_kv = read_of_layer(config, layer, global, "num_key_value_heads", "num_global_key_value_heads");
        if (common != 0 && head_dim != common) {
            fail(config.path(), ": layer ", layer, " has heads of ", head_dim, ", other ", global ? "full" : "sliding",
                 " layers of ", common, "; GGUF has one size for each kind");
        }
        if (head_dim % 2 != 0) {
            fail(config.path(), ": layer ", layer, " has heads of ", head_dim, ", expected an even number (RoPE)");
        }
        if (n_kv > params.n_head || params.n_head % n_kv != 0) {
            fail(config.path(), ": layer ", layer, " has ", n_kv, " key/value heads, of which ", params.n_head,
                 " attention heads are not a multiple");
        }
        common = head_dim;
        window.n_head_kv.push_back(n_kv);
    }
    if (params.head_dim == 0) {
        params.head_dim = config.require_int({"head_dim"}, 1, SIZE_MAX_32);
    }
    params.n_rot = params.head_dim;
}

double read_base(const HfJson & rope) {
    const double base = rope.require_float({"rope_theta"});
    if (!(base > 0) || !std::isfinite(base)) {
        fail(rope.path(), ": rope_theta ", base, ", expected a positive number");
    }
    return base;
}

// Sliding layers rotate all of a head, global ones the first pairs with the frequencies that all would have.
void read_ropes(const HfJson & config, HfParams & params) {
    const HfJson sliding(config.path(), object_in(config, "rope_parameters", "sliding_attention"));
    const HfJson global(config.path(), object_in(config, "rope_parameters", "full_attention"));
    expect_setting(sliding, "rope_type", "default");
    expect_setting(sliding, "partial_rotary_factor", 1.0);
    params.rope_base               = read_base(sliding);
    params.window.rope_base_global = read_base(global);

    const std::string type  = global.find_string({"rope_type"}).value_or("default");
    const double      share = global.find_float({"partial_rotary_factor"}).value_or(1.0);
    if (type != "proportional" && !(type == "default" && share == 1.0)) {
        fail(config.path(), ": RoPE of full_attention is ", in_quotes(type), ", only proportional can be converted");
    }
    if (!(share >= 0 && share <= 1)) {
        fail(config.path(), ": 'partial_rotary_factor' is ", share, ", expected 0 to 1");
    }
    expect_setting(global, "factor", 1.0);
    params.window.n_pairs_global =
        static_cast<int64_t>(std::floor(share * static_cast<double>(params.window.head_dim_global) / 2));
}

std::optional<double> read_positive(const HfJson & file, const char * key) {
    const std::optional<double> value = file.find_float({key});
    if (value && !(*value >= 0 && std::isfinite(*value))) {
        fail(file.path(), ": '", key, "' is ", *value, ", expected 0 or more");
    }
    return value;
}

std::optional<int64_t> read_count(const HfJson & file, const char * key, int64_t min) {
    return file.find({key}) == nullptr ? std::nullopt : std::optional(file.require_int({key}, min, SIZE_MAX_32));
}

void read_canvas(const HfJson & config, const HfJson & generation, CanvasParams & canvas) {
    canvas.length     = read_count(config, "canvas_length", 1).value_or(CANVAS_DEFAULT);
    canvas.n_steps    = read_count(generation, "max_denoising_steps", 1);
    canvas.stability  = read_count(generation, "stability_threshold", 0);
    canvas.t_min      = read_positive(generation, "t_min");
    canvas.t_max      = read_positive(generation, "t_max");
    canvas.confidence = read_positive(generation, "confidence_threshold");
    if (const Json * sampler = generation.find({"sampler_config"}); sampler != nullptr && sampler->is_object()) {
        const HfJson part(generation.path(), *sampler);
        expect_setting(part, "_cls_name", "EntropyBoundSamplerConfig");
        canvas.entropy_bound = read_positive(part, "entropy_bound");
    }
}

void read_diffusion_gemma(const HfJson & config, const HfJson & generation, HfParams & params) {
    read_layers(config, params);
    read_ropes(config, params);
    read_canvas(config, generation, params.canvas);
    params.logit_softcap = config.require_float({"final_logit_softcapping"});
    if (!(params.logit_softcap > 0) || !std::isfinite(params.logit_softcap)) {
        fail(config.path(), ": 'final_logit_softcapping' is ", params.logit_softcap, ", expected a positive number");
    }
}

// As llama.cpp's two ports (pull requests 24423 and 24427) name them.
void set_diffusion_gemma(GgufWriter & header, const HfParams & params) {
    const std::string    arch   = "diffusion-gemma.";
    const WindowParams & window = params.window;
    const CanvasParams & canvas = params.canvas;
    const auto size = [&](const std::string & key, int64_t value) { header.set(key, static_cast<uint32_t>(value)); };
    const auto real = [&](const std::string & key, double value) { header.set(key, static_cast<float>(value)); };
    size(arch + "block_count", params.n_layer);
    size(arch + "context_length", params.n_ctx);
    size(arch + "embedding_length", params.n_embd);
    size(arch + "embedding_length_per_layer_input", 0);
    size(arch + "feed_forward_length", params.n_ff);
    size(arch + "expert_count", params.moe.n_expert);
    size(arch + "expert_used_count", params.moe.n_used);
    size(arch + "expert_feed_forward_length", params.moe.n_ff);
    size(arch + "attention.head_count", params.n_head);
    header.set(arch + "attention.head_count_kv",
               std::vector<int32_t>(window.n_head_kv.begin(), window.n_head_kv.end()));
    size(arch + "attention.shared_kv_layers", 0);
    size(arch + "attention.sliding_window", window.size);
    header.set(arch + "attention.sliding_window_pattern", window.sliding);
    for (const char * part : {"attention.key_length", "attention.value_length", "rope.dimension_count"}) {
        size(arch + part, window.head_dim_global);
        size(concat(arch, part, "_swa"), params.head_dim);
    }
    real(arch + "rope.freq_base", window.rope_base_global);
    real(arch + "rope.freq_base_swa", params.rope_base);
    real(arch + "attention.layer_norm_rms_epsilon", params.norm_eps);
    real(arch + "final_logit_softcapping", params.logit_softcap);
    header.set(arch + "attention.causal", false);

    size("diffusion.canvas_length", canvas.length);
    for (const auto & [key, value] : {std::pair{"diffusion.eb_max_steps", canvas.n_steps},
                                      std::pair{"diffusion.eb_stability_threshold", canvas.stability}}) {
        if (value) {
            size(key, *value);
        }
    }
    for (const auto & [key, value] :
         {std::pair{"diffusion.eb_t_min", canvas.t_min}, std::pair{"diffusion.eb_t_max", canvas.t_max},
          std::pair{"diffusion.eb_entropy_bound", canvas.entropy_bound},
          std::pair{"diffusion.eb_confidence_threshold", canvas.confidence}}) {
        if (value) {
            real(key, *value);
        }
    }
}

TensorRule stacked(const char * source, const char * target, Dim rows, Dim cols) {
    TensorRule rule = {source, target, rows, cols};
    rule.stacked    = true;
    return rule;
}

} // namespace

// DiffusionGemma: Gemma 4's mixture of experts. The same weights read the prompt causally (encoder) and fill a canvas both ways
// (decoder); only the scalars of the layers differ.
std::vector<ArchMapping> diffusion_gemma_mappings() {
    constexpr Reorder none    = Reorder::none;
    constexpr Need    must    = Need::required;
    constexpr Need    refused = Need::refused;
    constexpr Layers  sliding = Layers::sliding;
    constexpr Layers  global  = Layers::global;

    ArchMapping mapping;
    mapping.arch      = "diffusion-gemma";
    mapping.hf_names  = {"DiffusionGemmaForBlockDiffusion", "DiffusionGemma4ModelForBlockDiffusion"};
    mapping.embedding = "model.decoder.embed_tokens.weight";
    mapping.head      = "lm_head.weight";
    mapping.diffusion = true;
    mapping.mask      = false;
    mapping.skipped   = {"encoder.vision_tower.", "encoder.embed_vision."};
    mapping.check     = check_diffusion_gemma;
    mapping.read      = read_diffusion_gemma;
    mapping.set_keys  = set_diffusion_gemma;
    mapping.tensors   = {
          {"model.decoder.norm.weight", "output_norm.weight", Dim::embd},
          {"model.decoder.self_conditioning.pre_norm.weight", "self_cond_pre_norm.weight", Dim::embd},
          {"model.decoder.self_conditioning.gate_proj.weight", "self_cond_gate.weight", Dim::ff, Dim::embd},
          {"model.decoder.self_conditioning.up_proj.weight", "self_cond_up.weight", Dim::ff, Dim::embd},
          {"model.decoder.self_conditioning.down_proj.weight", "self_cond_down.weight", Dim::embd, Dim::ff},

          {"model.decoder.layers.{}.layer_scalar", "blk.{}.layer_output_scale.weight", Dim::one},
          {"model.encoder.language_model.layers.{}.layer_scalar", "blk.{}.enc_layer_output_scale.weight", Dim::one},
          {"model.decoder.layers.{}.input_layernorm.weight", "blk.{}.attn_norm.weight", Dim::embd},
          {"model.decoder.layers.{}.self_attn.q_proj.weight", "blk.{}.attn_q.weight", Dim::q, Dim::embd},
          {"model.decoder.layers.{}.self_attn.k_proj.weight", "blk.{}.attn_k.weight", Dim::kv, Dim::embd},
          // global layers take the keys for values
          {"model.decoder.layers.{}.self_attn.v_proj.weight", "blk.{}.attn_v.weight", Dim::kv, Dim::embd, none, must,
           sliding},
          {"model.decoder.layers.{}.self_attn.v_proj.weight", "", Dim::kv, Dim::embd, none, refused, global},
          {"model.decoder.layers.{}.self_attn.o_proj.weight", "blk.{}.attn_output.weight", Dim::embd, Dim::q},
          {"model.decoder.layers.{}.self_attn.q_norm.weight", "blk.{}.attn_q_norm.weight", Dim::head},
          {"model.decoder.layers.{}.self_attn.k_norm.weight", "blk.{}.attn_k_norm.weight", Dim::head},
          {"model.decoder.layers.{}.post_attention_layernorm.weight", "blk.{}.post_attention_norm.weight", Dim::embd},

          {"model.decoder.layers.{}.pre_feedforward_layernorm.weight", "blk.{}.ffn_norm.weight", Dim::embd},
          {"model.decoder.layers.{}.mlp.gate_proj.weight", "blk.{}.ffn_gate.weight", Dim::ff, Dim::embd},
          {"model.decoder.layers.{}.mlp.up_proj.weight", "blk.{}.ffn_up.weight", Dim::ff, Dim::embd},
          {"model.decoder.layers.{}.mlp.down_proj.weight", "blk.{}.ffn_down.weight", Dim::embd, Dim::ff},
          {"model.decoder.layers.{}.post_feedforward_layernorm_1.weight", "blk.{}.post_ffw_norm_1.weight", Dim::embd},

          {"model.decoder.layers.{}.pre_feedforward_layernorm_2.weight", "blk.{}.pre_ffw_norm_2.weight", Dim::embd},
          {"model.decoder.layers.{}.router.scale", "blk.{}.ffn_gate_inp.scale", Dim::embd},
          {"model.decoder.layers.{}.router.proj.weight", "blk.{}.ffn_gate_inp.weight", Dim::expert, Dim::embd},
          {"model.decoder.layers.{}.router.per_expert_scale", "blk.{}.ffn_down_exps.scale", Dim::expert},
          stacked("model.decoder.layers.{}.experts.gate_up_proj", "blk.{}.ffn_gate_up_exps.weight", Dim::ff_expert_pair,
                  Dim::embd),
          stacked("model.decoder.layers.{}.experts.down_proj", "blk.{}.ffn_down_exps.weight", Dim::embd, Dim::ff_expert),
          {"model.decoder.layers.{}.post_feedforward_layernorm_2.weight", "blk.{}.post_ffw_norm_2.weight", Dim::embd},
          {"model.decoder.layers.{}.post_feedforward_layernorm.weight", "blk.{}.post_ffw_norm.weight", Dim::embd},
    };
    return {mapping};
}

} // namespace buoy
