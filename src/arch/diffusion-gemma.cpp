// DiffusionGemma (26B-A4B): Gemma 4's block, a dense FFN beside experts. The same weights read text causally and write a canvas both
// ways behind it, conditioned on what they predicted for it before; each of the two scales what leaves a block its own way. Row i
// predicts token i. Every sixth layer sees everything and has larger heads whose values are its keys; the others see a window.

#include "arch/blocks.h"
#include "io/gguf-file.h"

#include <cmath>

namespace buoy {

namespace {

constexpr const char * condition_norm = "self_cond_pre_norm.weight";
constexpr const char * condition_gate = "self_cond_gate.weight";
constexpr const char * condition_up   = "self_cond_up.weight";
constexpr const char * condition_down = "self_cond_down.weight";

void read(const GgufFile & file, HParams & hp) {
    hp.embed_scale   = std::sqrt(static_cast<float>(hp.n_embd));
    hp.logit_softcap = static_cast<float>(file.get_float("diffusion-gemma.final_logit_softcapping").value_or(0.0));
    for (LayerParams & layer : hp.layers) {
        layer.scale = 1.0f;
    }
}

void layer(WeightSource & source, const HParams & hp, int32_t il, LayerWeights & w) {
    const LayerParams & p    = hp.layer(il);
    const auto          name = [il](const char * part) { return block_name(part, il); };
    const auto          norm = [&](const char * part) { return source.norm(name(part), hp.n_embd, il); };
    const auto          one  = [&](const char * part) {
        return source.get({name(part), {1}, WeightUse::multiply, Presence::required, il});
    };
    w.attn_norm = norm("attn_norm");
    w.q         = source.linear(name("attn_q"), hp.n_embd, p.n_q(), il);
    w.k         = source.linear(name("attn_k"), hp.n_embd, p.n_kv(), il);
    if (p.window > 0 || source.has(name("attn_v.weight"), Presence::optional)) {
        w.v = source.linear(name("attn_v"), hp.n_embd, p.n_kv(), il);
    }
    if (p.window == 0) {
        w.rope_factors = source.get({"rope_freqs.weight", {p.rope.n_dims / 2}, WeightUse::rope, Presence::usual, il});
    }
    w.o = source.linear(name("attn_output"), p.n_q(), hp.n_embd, il);
    source.head_norms(il, hp, w);
    w.attn_post_norm = norm("post_attention_norm");
    source.swiglu(il, hp, w);
    source.experts_beside(il, hp, w);
    w.dense_post_norm  = norm("post_ffw_norm_1");
    w.expert_norm      = norm("pre_ffw_norm_2");
    w.expert_post_norm = norm("post_ffw_norm_2");
    w.ffn_post_norm    = norm("post_ffw_norm");
    w.out_scale        = one("layer_output_scale.weight");
    w.out_scale_read   = one("enc_layer_output_scale.weight");
}

void others(WeightSource & source, const HParams & hp, Weights & weights) {
    const int64_t E = hp.n_embd, F = hp.n_ff;
    const auto    get = [&](const char * name, const std::vector<int64_t> & shape, WeightUse use) {
        weights.others[name] = source.get({name, shape, use, Presence::required, 0});
    };
    get(condition_norm, {E}, WeightUse::multiply);
    get(condition_gate, {E, F}, WeightUse::matmul);
    get(condition_up, {E, F}, WeightUse::matmul);
    get(condition_down, {F, E}, WeightUse::matmul);
}

ggml_tensor * embed(Graph & g) {
    const float   scale = g.hparams().embed_scale;
    ggml_tensor * x     = g.scale(g.embed_tokens(), scale); // [E, N]
    return g.each_sequence(x, [&](ggml_tensor * rows, size_t s) {
        if (!g.is_canvas(s)) {
            return rows;
        }
        if (ggml_tensor * soft = g.mean_embedding(s)) { // [E, T]
            const auto    weight = [&](const char * name) { return g.weights().others.at(name); };
            ggml_tensor * h      = g.rms_norm(g.scale(soft, scale), {weight(condition_norm)});
            h                    = g.geglu({weight(condition_gate)}, {weight(condition_up)}, h); // [F, T]
            rows                 = g.add(rows, g.linear({weight(condition_down)}, h));
        }
        return g.rms_norm(rows, {});
    });
}

ggml_tensor * block(Graph & g, int32_t il, ggml_tensor * x) {
    const LayerWeights & w = g.layer(il);

    g.keys_values(il, x, [&](ggml_tensor * all) {
        ggml_tensor * h = g.rms_norm(all, w.attn_norm);  // [E, n]
        ggml_tensor * k = g.heads(il, g.linear(w.k, h)); // [D, Hkv, n]
        ggml_tensor * v = w.v.w != nullptr ? g.heads(il, g.linear(w.v, h)) : k;
        return KeysValues{g.rope(il, g.rms_norm(k, w.k_norm)), g.rms_norm(v, {})};
    });
    return g.rows_needed(il, x, [&](ggml_tensor * rows) {
        ggml_tensor * h = g.rms_norm(rows, w.attn_norm);                       // [E, n]
        ggml_tensor * q = g.rms_norm(g.heads(il, g.linear(w.q, h)), w.q_norm); // [D, H, n]
        ggml_tensor * a = g.linear(w.o, g.attention(il, g.rope(il, q)));       // [E, n]
        a               = g.add(rows, g.rms_norm(a, w.attn_post_norm));

        ggml_tensor * dense = g.linear(w.down, g.geglu(w.gate, w.up, g.rms_norm(a, w.ffn_norm))); // F in between
        ggml_tensor * route = g.multiply(g.rms_norm(a, {}), w.experts.route_scale);
        route               = g.scale(route, 1.0f / std::sqrt(static_cast<float>(g.hparams().n_embd)));
        ggml_tensor * some  = g.experts(w.experts, g.rms_norm(a, w.expert_norm), route);
        ggml_tensor * f     = g.add(g.rms_norm(dense, w.dense_post_norm), g.rms_norm(some, w.expert_post_norm));

        return g.by_mode(g.add(a, g.rms_norm(f, w.ffn_post_norm)), [&](ggml_tensor * y, bool canvas) {
            return g.multiply(y, canvas ? w.out_scale : w.out_scale_read);
        });
    });
}

ggml_tensor * head(Graph & g, ggml_tensor * x) {
    ggml_tensor * logits = g.linear(g.weights().output, g.rms_norm(x, g.weights().output_norm)); // [V, n]
    const float   cap    = g.hparams().logit_softcap;
    return cap > 0.0f ? g.softcap(logits, cap) : logits;
}

} // namespace

std::vector<Arch> diffusion_gemma_archs() {
    const Arch base = {.model = {.read = read, .layer = layer, .others = others},
                       .graph = {.embed = embed, .block = block, .head = head}};
    return {
        base.named("diffusion-gemma", {.rope        = RopeKind::neox,
                                       .attention   = AttentionKind::full,
                                       .shift       = false,
                                       .canvases    = true,
                                       .windows     = true,
                                       .experts     = true,
                                       .expert_gelu = true}),
    };
}

} // namespace buoy
