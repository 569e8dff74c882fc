#include "model/hparams.h"

#include "buoy/error.h"
#include "io/gguf-file.h"

#include <limits>

namespace buoy {

namespace {

constexpr int64_t dim_max = 1 << 24; // far above any model, far below what could overflow a product of two

float read_float(const GgufFile & file, const std::string & key, double fallback) {
    return static_cast<float>(file.get_float(key).value_or(fallback));
}

int32_t read_dim(const GgufFile & file, const std::string & key) {
    return static_cast<int32_t>(file.require_int(key, 1, dim_max));
}

RopeParams read_rope(const GgufFile & file, const std::string & arch, const HParams & hp, RopeKind kind) {
    const std::string key = arch + ".rope.";
    const std::string & path = file.paths()[0];

    RopeParams rope;
    rope.kind       = kind;
    rope.n_dims     = file.has(key + "dimension_count") ? read_dim(file, key + "dimension_count") : hp.head_dim;
    rope.freq_base  = read_float(file, key + "freq_base", 10000.0);
    rope.n_ctx_orig = file.has(key + "scaling.original_context_length")
                          ? read_dim(file, key + "scaling.original_context_length")
                          : hp.n_ctx_train;
    if (rope.n_dims > hp.head_dim || rope.n_dims % 2 != 0) {
        fail(path, ": key '", key, "dimension_count' is ", rope.n_dims, ", expected an even number up to the head dimension ",
             hp.head_dim);
    }
    if (rope.freq_base <= 0.0f) {
        fail(path, ": key '", key, "freq_base' is ", rope.freq_base, ", expected a positive number");
    }

    // scale_linear is the old name of the factor
    const std::string kind_name = file.get_string(key + "scaling.type").value_or("linear");
    if (kind_name != "none" && kind_name != "linear" && kind_name != "yarn") {
        fail(path, ": key '", key, "scaling.type' is '", kind_name, "', known are none, linear and yarn");
    }
    const char * factor_key = file.has(key + "scaling.factor") ? "scaling.factor" : "scale_linear";
    const float  factor     = read_float(file, key + factor_key, 0.0);
    if (kind_name == "none" || factor == 0.0f) {
        return rope;
    }
    if (factor < 0.0f) {
        fail(path, ": key '", key, factor_key, "' is ", factor, ", expected a positive number");
    }
    rope.freq_scale  = 1.0f / factor;
    rope.attn_factor = read_float(file, key + "scaling.attn_factor", 1.0);
    if (kind_name == "yarn") {
        // ggml multiplies cos and sin by 1 + 0.1 ln(factor) itself, which is YaRN's own magnitude (arXiv 2309.00071, eq. 22)
        rope.ext_factor = read_float(file, key + "scaling.yarn_ext_factor", 1.0);
        rope.beta_fast  = read_float(file, key + "scaling.yarn_beta_fast", 32.0);
        rope.beta_slow  = read_float(file, key + "scaling.yarn_beta_slow", 1.0);
    }
    return rope;
}

} // namespace

HParams read_hparams(const GgufFile & file, const std::string & arch, const ArchDefaults & defaults) {
    const std::string & path = file.paths()[0];
    const std::string   key  = arch + ".";

    HParams hp;
    hp.n_embd      = read_dim(file, key + "embedding_length");
    hp.n_layer     = read_dim(file, key + "block_count");
    hp.n_ff        = read_dim(file, key + "feed_forward_length");
    hp.n_head      = read_dim(file, key + "attention.head_count");
    hp.n_head_kv   = file.has(key + "attention.head_count_kv") ? read_dim(file, key + "attention.head_count_kv") : hp.n_head;
    hp.n_ctx_train = static_cast<int32_t>(
        file.require_int(key + "context_length", 1, std::numeric_limits<int32_t>::max()));
    hp.norm_eps = static_cast<float>(file.require_float(key + "attention.layer_norm_rms_epsilon"));

    if (static_cast<size_t>(hp.n_layer) > file.tensors().size()) {
        fail(path, ": key '", key, "block_count' is ", hp.n_layer, ", but the file holds only ", file.tensors().size(),
             " tensors");
    }
    if (hp.n_head % hp.n_head_kv != 0) {
        fail(path, ": key '", key, "attention.head_count_kv' is ", hp.n_head_kv, ", expected a divisor of head_count ",
             hp.n_head);
    }
    if (!file.has(key + "attention.key_length") && hp.n_embd % hp.n_head != 0) {
        fail(path, ": key '", key, "attention.head_count' is ", hp.n_head, ", expected a divisor of embedding_length ",
             hp.n_embd);
    }
    hp.head_dim = file.has(key + "attention.key_length") ? read_dim(file, key + "attention.key_length")
                                                         : hp.n_embd / hp.n_head;
    if (file.has(key + "attention.value_length")) {
        const int32_t value_length = read_dim(file, key + "attention.value_length");
        if (value_length != hp.head_dim) {
            fail(path, ": key '", key, "attention.value_length' is ", value_length, ", expected the key length ", hp.head_dim);
        }
    }
    if (!(hp.norm_eps >= 0.0f && hp.norm_eps < 1.0f)) {
        fail(path, ": key '", key, "attention.layer_norm_rms_epsilon' is ", hp.norm_eps, ", expected 0 to 1");
    }
    hp.rope = read_rope(file, arch, hp, defaults.rope);

    const GgufTensor * embd = file.find_tensor("token_embd.weight");
    if (embd == nullptr) {
        fail(path, ": tensor 'token_embd.weight' is missing");
    }
    if (embd->ne[1] > std::numeric_limits<int32_t>::max()) {
        fail(path, ": tensor 'token_embd.weight' has ", embd->ne[1], " rows, too many");
    }
    hp.n_vocab = static_cast<int32_t>(embd->ne[1]);
    return hp;
}

Traits read_traits(const GgufFile & file, const std::string & arch, const ArchDefaults & defaults) {
    const std::string & path = file.paths()[0];

    Traits traits;
    traits.attention = defaults.attention;
    if (const auto causal = file.get_bool(arch + ".attention.causal")) {
        traits.attention = *causal ? AttentionKind::causal : AttentionKind::full;
    }
    if (file.has("diffusion.block_length")) {
        traits.block_length = static_cast<int32_t>(file.require_int("diffusion.block_length", 0, dim_max));
        if (traits.block_length > 0 && traits.attention != AttentionKind::causal) {
            traits.attention = AttentionKind::block_causal;
        }
    }
    if (const auto mask = file.get_int("tokenizer.ggml.mask_token_id")) {
        const uint64_t n_tokens = file.array_size("tokenizer.ggml.tokens").value_or(0);
        if (*mask < 0 || (n_tokens > 0 && static_cast<uint64_t>(*mask) >= n_tokens)) {
            fail(path, ": key 'tokenizer.ggml.mask_token_id' is ", *mask, ", expected less than the vocabulary's ", n_tokens);
        }
        traits.mask_id = static_cast<int32_t>(*mask);
    }
    if (traits.attention != AttentionKind::causal && traits.mask_id < 0) {
        fail(path, ": key 'tokenizer.ggml.mask_token_id' is missing, and a diffusion model can't decode without it");
    }
    traits.shift = traits.attention == AttentionKind::causal ||
                   file.get_bool("diffusion.shift_logits").value_or(defaults.shift && defaults.attention != AttentionKind::causal);
    return traits;
}

} // namespace buoy
