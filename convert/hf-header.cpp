#include "hf-header.h"

#include "buoy/message.h"
#include "io/json-file.h"
#include "size-label.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sstream>

namespace buoy {

namespace {

namespace fs = std::filesystem;

// `license: mit` of the front matter that a model card opens with.
std::optional<std::string> card_license(const std::string & dir) {
    const std::string path = (fs::path(dir) / "README.md").string();
    std::error_code   error;
    if (!fs::is_regular_file(path, error) || fs::file_size(path, error) == 0) {
        return std::nullopt;
    }
    std::istringstream card(load_text(path));
    std::string        line;
    if (!std::getline(card, line) || line.compare(0, 3, "---") != 0) {
        return std::nullopt;
    }
    while (std::getline(card, line) && line.compare(0, 3, "---") != 0) {
        if (line.compare(0, 9, "license: ") == 0) {
            const std::string value = line.substr(9, line.find_last_not_of(" \r") - 8);
            return value.empty() ? std::nullopt : std::optional<std::string>(value);
        }
    }
    return std::nullopt;
}

std::string model_name(const std::string & dir) {
    std::error_code error;
    const fs::path  path = fs::weakly_canonical(dir, error);
    return printable(path.filename().string());
}

// "GSAI-ML/LLaDA-8B-Instruct", where the config remembers it; a path of somebody's machine says nothing.
std::optional<std::string> source_repository(const HfJson & config) {
    const nlohmann::json * value = config.find({"_name_or_path"});
    if (value == nullptr || !value->is_string()) {
        return std::nullopt;
    }
    const std::string name  = value->get<std::string>();
    const size_t      slash = name.find('/');
    const bool        repository =
        slash != std::string::npos && slash > 0 && slash + 1 < name.size() &&
        name.find('/', slash + 1) == std::string::npos &&
        name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-/") ==
            std::string::npos &&
        name[0] != '.';
    return repository ? std::optional<std::string>(name) : std::nullopt;
}

} // namespace

void set_general(GgufWriter & header, const std::string & dir, const ArchMapping & mapping, const HfJson & config,
                 const std::vector<PlannedTensor> & tensors, uint32_t file_type) {
    header.set("general.architecture", mapping.arch);
    header.set("general.type", "model");
    header.set("general.name", model_name(dir));
    header.set("general.size_label", size_label(tensors));
    if (const std::optional<std::string> license = card_license(dir)) {
        header.set("general.license", *license);
    }
    if (const std::optional<std::string> repository = source_repository(config)) {
        header.set("general.source.huggingface.repository", *repository);
    }
    header.set("general.file_type", file_type);
    header.set("general.quantization_version", static_cast<uint32_t>(GGML_QNT_VERSION));
}

namespace {

void set_rope(GgufWriter & header, const std::string & arch, const HfParams & params) {
    const RopeScaling & rope = params.rope;
    header.set(arch + ".rope.freq_base", static_cast<float>(params.rope_base));
    header.set(arch + ".rope.dimension_count", static_cast<uint32_t>(params.n_rot));
    if (rope.kind != HfRopeKind::linear && rope.kind != HfRopeKind::yarn) {
        return; // llama3 is a tensor of factors
    }
    header.set(arch + ".rope.scaling.type", rope.kind == HfRopeKind::linear ? "linear" : "yarn");
    header.set(arch + ".rope.scaling.factor", static_cast<float>(rope.factor));
    if (rope.kind == HfRopeKind::linear) {
        return;
    }
    header.set(arch + ".rope.scaling.original_context_length", static_cast<uint32_t>(rope.n_ctx_original));
    // Readers scale by 0.1 ln(factor) + 1 already.
    const double built_in = 0.1 * std::log(rope.factor) + 1;
    if (rope.attention_factor && *rope.attention_factor != built_in) {
        header.set(arch + ".rope.scaling.attn_factor", static_cast<float>(*rope.attention_factor / built_in));
    }
    if (rope.query_beta) {
        header.set(arch + ".attention.temperature_scale", static_cast<float>(*rope.query_beta));
        header.set(arch + ".attention.temperature_length", static_cast<uint32_t>(rope.n_ctx_original));
    }
    if (rope.beta_fast) {
        header.set(arch + ".rope.scaling.yarn_beta_fast", static_cast<float>(*rope.beta_fast));
    }
    if (rope.beta_slow) {
        header.set(arch + ".rope.scaling.yarn_beta_slow", static_cast<float>(*rope.beta_slow));
    }
}

void set_experts(GgufWriter & header, const std::string & arch, const MoeParams & moe) {
    const auto size = [&](const char * key, int64_t value) { header.set(arch + key, static_cast<uint32_t>(value)); };
    size(".expert_count", moe.n_expert);
    size(".expert_used_count", moe.n_used);
    size(".expert_feed_forward_length", moe.n_ff);
    header.set(arch + ".expert_gating_func", moe.sigmoid ? uint32_t{2} : uint32_t{1}); // upstream's numbers
    header.set(arch + ".expert_weights_norm", moe.norm);
    header.set(arch + ".expert_weights_scale", static_cast<float>(moe.scale));
    if (moe.n_shared > 0) {
        size(".expert_shared_count", moe.n_shared);
        size(".expert_shared_feed_forward_length", moe.n_ff_shared);
    }
    if (moe.n_group > 0) {
        size(".expert_group_count", moe.n_group);
        size(".expert_group_used_count", moe.n_group_used);
    }
    const auto first = std::find(moe.dense.begin(), moe.dense.end(), false);
    size(".leading_dense_block_count", first - moe.dense.begin());
}

} // namespace

void set_model(GgufWriter & header, const ArchMapping & mapping, const HfParams & params) {
    if (mapping.set_keys != nullptr) {
        mapping.set_keys(header, params);
        return;
    }
    const std::string arch = mapping.arch;
    const auto size = [&](const char * key, int64_t value) { header.set(arch + key, static_cast<uint32_t>(value)); };
    size(".vocab_size", params.n_vocab);
    size(".context_length", params.n_ctx);
    size(".embedding_length", params.n_embd);
    size(".block_count", params.n_layer);
    size(".feed_forward_length", params.n_ff);
    size(".attention.head_count", params.n_head);
    size(".attention.head_count_kv", params.n_head_kv);
    size(".attention.key_length", params.head_dim);
    size(".attention.value_length", params.head_dim);
    header.set(arch + ".attention.layer_norm_rms_epsilon", static_cast<float>(params.norm_eps));
    set_rope(header, arch, params);
    header.set(arch + ".attention.causal", !mapping.diffusion); // said either way: files that don't may be anything
    if (mapping.diffusion) {
        header.set("diffusion.shift_logits", mapping.shift);
    }
    if (params.block_length > 0) {
        header.set("diffusion.block_length", static_cast<uint32_t>(params.block_length));
    }
    if (params.recommended > 0) {
        header.set("diffusion.recommended_block_length", static_cast<uint32_t>(params.recommended));
    }
    if (params.delete_id >= 0) {
        header.set("diffusion.delete_token_id", static_cast<uint32_t>(params.delete_id));
    }
    if (params.split_id >= 0) {
        header.set("diffusion.split_token_id", static_cast<uint32_t>(params.split_id));
    }
    if (params.moe.n_expert > 0) {
        set_experts(header, arch, params.moe);
    }
}

void set_tokenizer(GgufWriter & header, const Tokenizer & tokenizer) {
    const TokenizerKind  kind = tokenizer.pre.kind;
    std::vector<int32_t> types;
    types.reserve(tokenizer.types.size());
    for (const TokenType type : tokenizer.types) {
        types.push_back(static_cast<int32_t>(type));
    }
    header.set("tokenizer.ggml.model", kind == TokenizerKind::spm          ? "llama"
                                       : kind == TokenizerKind::whole_text ? "gemma4"
                                                                           : "gpt2");
    if (kind != TokenizerKind::whole_text) { // which has neither
        header.set("tokenizer.ggml.pre", tokenizer.pre.name);
        header.set("tokenizer.ggml.normalizer", tokenizer.pre.normalizer);
    }
    header.set("tokenizer.ggml.tokens", tokenizer.tokens);
    header.set("tokenizer.ggml.token_type", types);
    if (kind != TokenizerKind::byte_level) {
        header.set("tokenizer.ggml.scores", tokenizer.scores);
    }
    if (kind != TokenizerKind::spm) {
        header.set("tokenizer.ggml.merges", tokenizer.merges);
    }
    for (const auto & [name, id] : tokenizer.special_ids) {
        header.set(concat("tokenizer.ggml.", name, "_token_id"), static_cast<uint32_t>(id));
    }
    header.set("tokenizer.ggml.add_bos_token", tokenizer.add_bos);
    header.set("tokenizer.ggml.add_eos_token", tokenizer.add_eos);
    if (kind == TokenizerKind::whole_text) {
        header.set("tokenizer.ggml.add_sep_token", false);
    }
    header.set("tokenizer.ggml.add_space_prefix", tokenizer.pre.prefix_space);
    if (tokenizer.chat_template) {
        header.set("tokenizer.chat_template", *tokenizer.chat_template);
    }
    for (const auto & [name, body] : tokenizer.chat_templates_named) {
        header.set("tokenizer.chat_template." + name, body);
    }
}

} // namespace buoy
