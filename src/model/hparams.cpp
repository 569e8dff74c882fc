#include "model/hparams.h"

#include "buoy/message.h"
#include "io/gguf-file.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace buoy {

namespace {

constexpr const char * name_embd   = "token_embd.weight";
constexpr const char * key_tokens  = "tokenizer.ggml.tokens";
constexpr const char * key_mask_id = "tokenizer.ggml.mask_token_id";

constexpr const char * key_recommended = "diffusion.recommended_block_length";

constexpr int64_t dim_max = 1 << 24; // far above any model, far below what could overflow a product of two

template <typename... Args>
[[noreturn]] void fail_key(const GgufFile & file, const std::string & key, const Args &... args) {
    fail(printable(file.paths()[0]), ": key ", in_quotes(key), ": ", args...);
}

// A number of the file in [min, max]; what fits a double may not fit a float.
float read_float(const GgufFile & file, const std::string & key, double fallback, double min = -1e30,
                 double max = 1e30) {
    const double value = file.get_float(key).value_or(fallback);
    if (!(value >= min && value <= max)) {
        fail_key(file, key, "expected ", min, " to ", max, ", found ", value);
    }
    return static_cast<float>(value);
}

int32_t read_dim(const GgufFile & file, const std::string & key) {
    return static_cast<int32_t>(file.require_int(key, 1, dim_max));
}

// One number for each layer, or one for all.
std::vector<int32_t> read_dims(const GgufFile & file, const std::string & key, int32_t n_layer) {
    if (!file.is_array(key)) {
        return std::vector<int32_t>(static_cast<size_t>(n_layer), read_dim(file, key));
    }
    const std::vector<int64_t> values = file.get_int_array(key).value();
    std::vector<int32_t>       dims;
    for (const int64_t value : values) {
        if (value < 1 || value > dim_max) {
            fail_key(file, key, "expected 1 to ", dim_max, ", found ", value);
        }
        dims.push_back(static_cast<int32_t>(value));
    }
    if (dims.size() != static_cast<size_t>(n_layer)) {
        fail_key(file, key, "expected a number for each of the ", n_layer, " layers, found ", dims.size());
    }
    return dims;
}

RopeParams read_rope(const GgufFile & file, const std::string & arch, int32_t head_dim, int32_t n_ctx_train,
                     RopeKind kind) {
    const std::string key = arch + ".rope.";

    RopeParams rope;
    rope.kind       = kind;
    rope.n_dims     = file.has(key + "dimension_count") ? read_dim(file, key + "dimension_count") : head_dim;
    rope.freq_base  = read_float(file, key + "freq_base", 10000.0, 1e-6);
    rope.n_ctx_orig = file.has(key + "scaling.original_context_length")
                          ? read_dim(file, key + "scaling.original_context_length")
                          : n_ctx_train;
    if (rope.n_dims > head_dim || rope.n_dims % 2 != 0) {
        fail_key(file, key + "dimension_count", "expected an even number up to the head dimension ", head_dim,
                 ", found ", rope.n_dims);
    }

    // scale_linear is the old name of the factor
    const std::string kind_name = file.get_string(key + "scaling.type").value_or("linear");
    if (kind_name != "none" && kind_name != "linear" && kind_name != "yarn") {
        fail_key(file, key + "scaling.type", "expected none, linear or yarn, found ", in_quotes(kind_name));
    }
    const char * factor_key = file.has(key + "scaling.factor") ? "scaling.factor" : "scale_linear";
    const float  factor     = read_float(file, key + factor_key, 0.0, 0.0);
    if (kind_name == "none" || factor == 0.0f) {
        return rope;
    }
    if (factor < 1e-6f) { // its inverse would not be a number to multiply positions with
        fail_key(file, key + factor_key, "expected 0 (none) or at least 1e-06, found ", factor);
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

ExpertParams read_experts(const GgufFile & file, const std::string & arch, const HParams & hp,
                          const ArchTraits & arch_traits) {
    constexpr int64_t expert_max = 1 << 16;
    const std::string key        = arch + ".expert_";
    const auto        read       = [&](const char * name, int64_t min, int64_t max) {
        return static_cast<int32_t>(file.require_int(key + name, min, max));
    };
    ExpertParams experts;
    experts.n_expert = read("count", 1, expert_max);
    experts.n_used   = read("used_count", 1, experts.n_expert);
    experts.n_ff =
        file.has(key + "feed_forward_length") ? read("feed_forward_length", 1, dim_max) : hp.n_ff / experts.n_used;
    if (file.has(arch + ".leading_dense_block_count")) {
        experts.n_dense = static_cast<int32_t>(file.require_int(arch + ".leading_dense_block_count", 0, hp.n_layer));
    }
    if (file.has(key + "shared_count")) {
        const int64_t n_shared = read("shared_count", 0, expert_max);
        const int64_t n_each   = file.has(key + "shared_feed_forward_length")
                                     ? read("shared_feed_forward_length", 0, dim_max)
                                     : experts.n_ff;
        if (n_shared * n_each > dim_max) {
            fail_key(file, key + "shared_count", "expected at most ", dim_max / n_each, " of width ", n_each,
                     ", found ", n_shared);
        }
        experts.n_ff_shared = static_cast<int32_t>(n_shared * n_each);
    }
    // upstream's numbers; 0 stands for what the architecture has
    const int64_t gating = file.get_int(key + "gating_func").value_or(0);
    if (gating < 0 || gating > 2) {
        fail_key(file, key + "gating_func", "expected 1 (softmax) or 2 (sigmoid), found ", gating);
    }
    experts.sigmoid = gating == 0 ? arch_traits.expert_sigmoid : gating == 2;
    experts.gelu    = arch_traits.expert_gelu;
    experts.norm    = file.get_bool(key + "weights_norm").value_or(arch_traits.expert_norm);
    experts.scale   = read_float(file, key + "weights_scale", 1.0);
    experts.scale   = experts.scale == 0.0f ? 1.0f : experts.scale; // upstream's way to say none

    if (file.get_int(key + "group_count").value_or(0) > 1) {
        experts.n_group      = read("group_count", 1, experts.n_expert);
        experts.n_group_used = read("group_used_count", 1, experts.n_group);
        const int32_t n_each = experts.n_expert / experts.n_group; // a group is as good as its two best experts
        if (experts.n_expert % experts.n_group != 0 || n_each < 2 || experts.n_used > experts.n_group_used * n_each) {
            fail_key(file, key + "group_count", "expected groups of two or more of the ", experts.n_expert,
                     " experts, with ", experts.n_used, " in those used, found ", experts.n_group);
        }
    }
    return experts;
}

// V is the embedding's rows; the tokenizer may name fewer, for rows are often padded.
int32_t read_n_vocab(const GgufFile & file) {
    const GgufTensor * embd = file.find_tensor(name_embd);
    if (embd == nullptr) {
        fail(printable(file.paths()[0]), ": tensor '", name_embd, "': missing");
    }
    const int64_t n_rows = embd->ne[1];
    if (n_rows > std::numeric_limits<int32_t>::max()) {
        fail(printable(file.paths()[0]), ": tensor '", name_embd, "': expected less than 2^31 rows, found ", n_rows);
    }
    // <arch>.vocab_size is not asked: it is stale in some published files, and these rows are what is multiplied
    const std::string rows_text = concat("the ", n_rows, " rows of tensor '", name_embd, "'");
    const uint64_t    n_tokens  = file.array_size(key_tokens).value_or(0);
    if (n_tokens > static_cast<uint64_t>(n_rows)) {
        fail_key(file, key_tokens, "expected no more tokens than ", rows_text, ", found ", n_tokens);
    }
    return static_cast<int32_t>(n_rows);
}

// -1 where the file names none, which some writers spell out.
int32_t read_token_id(const GgufFile & file, const char * key) {
    const int64_t id = file.get_int(key).value_or(-1);
    if (id == -1 || id == std::numeric_limits<uint32_t>::max()) {
        return -1;
    }
    const GgufTensor * embd   = file.find_tensor(name_embd);
    const int64_t      n_rows = embd != nullptr ? embd->ne[1] : std::numeric_limits<int32_t>::max();
    const auto         n_ids  = file.array_size(key_tokens).value_or(static_cast<uint64_t>(n_rows));
    if (id < 0 || static_cast<uint64_t>(id) >= n_ids) {
        fail_key(file, key, "expected less than the vocabulary's ", n_ids, ", found ", id);
    }
    return static_cast<int32_t>(id);
}

// Layers with a window have keys of their own for what differs, and K/V heads may be told for each layer.
void read_windows(const GgufFile & file, const std::string & arch, HParams & hp) {
    const std::string key         = arch + ".attention.";
    const std::string pattern_key = key + "sliding_window_pattern";
    const auto        pattern     = file.get_bool_array(pattern_key);
    if (!pattern || pattern->size() != static_cast<size_t>(hp.n_layer)) {
        fail_key(file, pattern_key, "expected a bool for each of the ", hp.n_layer, " layers, found ",
                 pattern ? std::to_string(pattern->size()) : "none");
    }
    const std::vector<int32_t> n_head_kv = read_dims(file, key + "head_count_kv", hp.n_layer);
    for (int32_t il = 0; il < hp.n_layer; il++) {
        LayerParams & layer = hp.layer(il);
        layer.n_head_kv     = n_head_kv[static_cast<size_t>(il)];
        if (layer.n_head % layer.n_head_kv != 0) {
            fail_key(file, key + "head_count_kv", "expected divisors of head_count ", layer.n_head, ", found ",
                     layer.n_head_kv);
        }
        if (!(*pattern)[static_cast<size_t>(il)]) {
            continue;
        }
        layer.window = read_dim(file, key + "sliding_window");
        for (const char * name : {"key_length_swa", "value_length_swa"}) {
            const int32_t length = file.has(key + name) ? read_dim(file, key + name) : layer.head_dim;
            if (name[0] == 'v' && length != layer.head_dim) {
                fail_key(file, key + name, "expected the key length ", layer.head_dim, ", found ", length);
            }
            layer.head_dim = length;
        }
        const std::string dims_key = arch + ".rope.dimension_count_swa";
        layer.rope.n_dims          = file.has(dims_key) ? read_dim(file, dims_key) : layer.head_dim;
        layer.rope.freq_base =
            read_float(file, arch + ".rope.freq_base_swa", static_cast<double>(layer.rope.freq_base), 1e-6);
        if (layer.rope.n_dims > layer.head_dim || layer.rope.n_dims % 2 != 0) {
            fail_key(file, dims_key, "expected an even number up to the head dimension ", layer.head_dim, ", found ",
                     layer.rope.n_dims);
        }
    }
}

} // namespace

HParams read_hparams(const GgufFile & file, const std::string & arch, const ArchTraits & arch_traits) {
    const std::string key = arch + ".";

    HParams hp;
    hp.n_embd  = read_dim(file, key + "embedding_length");
    hp.n_layer = read_dim(file, key + "block_count");
    LayerParams layer;
    layer.n_head    = read_dim(file, key + "attention.head_count");
    layer.n_head_kv = file.has(key + "attention.head_count_kv") && !arch_traits.windows
                          ? read_dim(file, key + "attention.head_count_kv")
                          : layer.n_head;
    hp.n_ctx_train =
        static_cast<int32_t>(file.require_int(key + "context_length", 1, std::numeric_limits<int32_t>::max()));
    const std::string eps_key =
        key + (arch_traits.layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon");
    file.require_float(eps_key);
    hp.norm_eps = read_float(file, eps_key, 0.0, 0.0, 1.0);

    if (!arch_traits.experts || file.has(key + "feed_forward_length")) {
        hp.n_ff = read_dim(file, key + "feed_forward_length");
    }
    if (arch_traits.experts) {
        hp.experts = read_experts(file, arch, hp, arch_traits);
    }
    if (static_cast<size_t>(hp.n_layer) > file.tensors().size()) {
        fail_key(file, key + "block_count", "expected at most the file's ", file.tensors().size(), " tensors, found ",
                 hp.n_layer);
    }
    if (layer.n_head % layer.n_head_kv != 0) {
        fail_key(file, key + "attention.head_count_kv", "expected a divisor of head_count ", layer.n_head, ", found ",
                 layer.n_head_kv);
    }
    if (!file.has(key + "attention.key_length") && hp.n_embd % layer.n_head != 0) {
        fail_key(file, key + "attention.head_count", "expected a divisor of embedding_length ", hp.n_embd, ", found ",
                 layer.n_head);
    }
    layer.head_dim = file.has(key + "attention.key_length") ? read_dim(file, key + "attention.key_length")
                                                            : hp.n_embd / layer.n_head;
    if (file.has(key + "attention.value_length")) {
        const int32_t value_length = read_dim(file, key + "attention.value_length");
        if (value_length != layer.head_dim) {
            fail_key(file, key + "attention.value_length", "expected the key length ", layer.head_dim, ", found ",
                     value_length);
        }
    }
    layer.scale = 1.0f / std::sqrt(static_cast<float>(layer.head_dim));
    layer.rope  = read_rope(file, arch, layer.head_dim, hp.n_ctx_train, arch_traits.rope);
    hp.layers.assign(static_cast<size_t>(hp.n_layer), layer);
    if (arch_traits.windows) {
        read_windows(file, arch, hp);
    }
    hp.canvases     = arch_traits.canvases;
    hp.n_vocab      = read_n_vocab(file);
    hp.query_beta   = read_float(file, key + "attention.temperature_scale", 0.0, 0.0, 1e6);
    hp.query_length = file.has(key + "attention.temperature_length")
                          ? read_dim(file, key + "attention.temperature_length")
                          : layer.rope.n_ctx_orig;
    return hp;
}

namespace {

// What llama.cpp's ports write: all but the length may be missing.
void read_canvas(const GgufFile & file, Traits & traits) {
    CanvasDefaults & canvas = traits.canvas;
    const auto       whole  = [&](const char * key, int32_t otherwise) {
        return file.has(key) ? static_cast<int32_t>(file.require_int(key, 0, dim_max)) : otherwise;
    };
    const auto number = [&](const char * key, double otherwise) {
        const double value = file.get_float(key).value_or(otherwise);
        if (!(value >= 0.0 && value <= 1e6)) {
            fail_key(file, key, "expected 0 to 1e+06, found ", value);
        }
        return value;
    };
    traits.canvas_length        = static_cast<int32_t>(file.require_int("diffusion.canvas_length", 1, dim_max));
    canvas.steps                = std::max(whole("diffusion.eb_max_steps", canvas.steps), 1);
    canvas.t_min                = number("diffusion.eb_t_min", canvas.t_min);
    canvas.t_max                = number("diffusion.eb_t_max", canvas.t_max);
    canvas.entropy_bound        = number("diffusion.eb_entropy_bound", canvas.entropy_bound);
    canvas.stability_threshold  = whole("diffusion.eb_stability_threshold", canvas.stability_threshold);
    canvas.confidence_threshold = number("diffusion.eb_confidence_threshold", canvas.confidence_threshold);
    canvas.pad_id               = std::max(read_token_id(file, "tokenizer.ggml.padding_token_id"), 0);
    traits.mask_id              = -1; // its tokenizer may have one, which it does not use
    traits.shift                = false;
}

// Autoregressive or not, as asked; a model that can't is an Error.
void set_mode(Traits & traits, const GgufFile & file, const std::string & arch, const ModelParams & params) {
    const bool causal = params.force_causal || params.mode == ModelMode::ar;
    if (params.mode && !params.force_causal && !traits.two_modes &&
        traits.is_diffusion() != (params.mode == ModelMode::diffusion)) {
        fail(printable(file.paths()[0]), ": ", arch,
             traits.is_diffusion() ? " is a diffusion" : " is an autoregressive", " model and has no other mode");
    }
    if (causal) {
        traits.attention = AttentionKind::causal;
        traits.shift     = true;
    }
}

} // namespace

Traits read_traits(const GgufFile & file, const std::string & arch, const ArchTraits & arch_traits,
                   const ModelParams & params) {
    Traits traits;
    traits.mask_id = read_token_id(file, key_mask_id);

    // a model that was made autoregressive is one for diffusion if its file says anything about that and has a mask
    const bool has_diffusion_keys = file.has("diffusion.block_length") || file.has("diffusion.shift_logits");
    const bool implied_causal =
        arch_traits.attention == AttentionKind::causal && !(has_diffusion_keys && traits.mask_id >= 0);
    const bool causal = file.get_bool(arch + ".attention.causal").value_or(implied_causal);

    traits.block_length = arch_traits.block_length;
    if (file.has("diffusion.block_length")) {
        traits.block_length = static_cast<int32_t>(file.require_int("diffusion.block_length", 0, dim_max));
    }
    traits.attention        = causal                    ? AttentionKind::causal
                              : traits.block_length > 0 ? AttentionKind::block_causal
                                                        : AttentionKind::full;
    traits.even_steps       = arch_traits.even_steps;
    traits.exact_blocks     = arch_traits.exact_blocks;
    traits.two_modes        = arch_traits.two_modes;
    traits.delete_id        = read_token_id(file, "diffusion.delete_token_id");
    traits.split_id         = read_token_id(file, "diffusion.split_token_id");
    traits.sub_block_length = arch_traits.sub_block_length;
    if (file.has("diffusion.sub_block_length")) {
        traits.sub_block_length = static_cast<int32_t>(file.require_int("diffusion.sub_block_length", 0, dim_max));
    }
    if (file.has(key_recommended)) {
        traits.recommended_block_length = static_cast<int32_t>(file.require_int(key_recommended, 0, dim_max));
    }
    if (arch_traits.even_steps) {
        const int64_t pad = file.get_int("tokenizer.ggml.padding_token_id").value_or(-1);
        traits.closing_id = pad >= 0 && pad < read_n_vocab(file) ? static_cast<int32_t>(pad) : -1;
    }
    if (traits.attention != AttentionKind::causal && traits.mask_id < 0 && !arch_traits.canvases &&
        !params.force_causal) {
        fail_key(file, key_mask_id, "missing, expected the token that a diffusion model denoises");
    }
    traits.shift = traits.attention == AttentionKind::causal ||
                   file.get_bool("diffusion.shift_logits")
                       .value_or(arch_traits.shift && arch_traits.attention != AttentionKind::causal);
    if (arch_traits.canvases) {
        read_canvas(file, traits);
    }
    set_mode(traits, file, arch, params);
    return traits;
}

namespace {

// Whether the vocabulary has a token that only families of diffusion models have, without a key that names it.
bool has_known_mask(const GgufFile & file) {
    const auto tokens = file.get_string_array("tokenizer.ggml.tokens");
    return tokens && std::any_of(tokens->begin(), tokens->end(), [](const std::string & token) {
               return token == "<|mdm_mask|>" || token == "<|MASK|>" || token == "|<MASK>|";
           });
}

} // namespace

void check_causal(const GgufFile & file, const std::string & arch, const Traits & traits, const ModelParams & params) {
    if (traits.attention != AttentionKind::causal || params.force_causal || params.mode == ModelMode::ar ||
        file.has(arch + ".attention.causal")) {
        return;
    }
    const auto keys = file.keys();
    const auto found =
        std::find_if(keys.begin(), keys.end(), [](const std::string & key) { return key.rfind("diffusion.", 0) == 0; });
    const bool idle = arch.rfind("gemma", 0) == 0; // Gemma's tokenizer has a mask token that the models never use
    if (found == keys.end() && (idle || (traits.mask_id < 0 && !has_known_mask(file)))) {
        return;
    }
    fail(
        printable(file.paths()[0]), ": has ", found != keys.end() ? concat("key ", in_quotes(*found)) : "a mask token",
        ", so it may be a diffusion model, but ", in_quotes(arch),
        " is run autoregressively and no key says otherwise; if it is autoregressive, insist with `force_causal`, else "
        "convert it from its checkpoint");
}

} // namespace buoy
