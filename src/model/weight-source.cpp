#include "model/weight-source.h"

namespace buoy {

std::string block_name(const char * part, int32_t il) { return "blk." + std::to_string(il) + "." + part; }

Linear WeightSource::linear(const std::string & base, int64_t n_in, int64_t n_out, int32_t layer) {
    Linear part;
    part.w     = get({base + ".weight", {n_in, n_out}, WeightUse::matmul, Presence::required, layer});
    part.bias  = get({base + ".bias", {n_out}, WeightUse::add, Presence::optional, layer});
    part.scale = get({base + ".scale", {1}, WeightUse::multiply, Presence::optional, layer});
    return part;
}

Norm WeightSource::norm(const std::string & base, int64_t n, int32_t layer) {
    Norm norm;
    norm.w    = get({base + ".weight", {n}, WeightUse::multiply, Presence::required, layer});
    norm.bias = get({base + ".bias", {n}, WeightUse::add, Presence::optional, layer});
    return norm;
}

void WeightSource::attention(int32_t il, const HParams & hp, LayerWeights & layer, const AttentionParts & parts) {
    const LayerParams & p = hp.layer(il);
    const int64_t       E = hp.n_embd, n_q = p.n_q(), n_kv = p.n_kv();

    layer.attn_norm            = norm(block_name("attn_norm", il), E, il);
    const std::string fused    = block_name("attn_qkv", il);
    const bool        is_fused = has(fused + ".weight", parts.fused);
    if (is_fused) {
        const int64_t n_all = n_q + 2 * n_kv; // the rows of Q, then of K, then of V
        layer.q             = part(fused, E, n_all, {0, n_q}, il);
        layer.k             = part(fused, E, n_all, {n_q, n_kv}, il);
        layer.v             = part(fused, E, n_all, {n_q + n_kv, n_kv}, il);
    } else {
        layer.q = linear(block_name("attn_q", il), E, n_q, il);
        layer.k = linear(block_name("attn_k", il), E, n_kv, il);
        layer.v = linear(block_name("attn_v", il), E, n_kv, il);
    }
    layer.o = linear(block_name("attn_output", il), n_q, E, il);
    if (parts.bias == Presence::usual && !is_fused) {
        layer.q.bias = get({block_name("attn_q.bias", il), {n_q}, WeightUse::add, Presence::usual, il});
        layer.k.bias = get({block_name("attn_k.bias", il), {n_kv}, WeightUse::add, Presence::usual, il});
        layer.v.bias = get({block_name("attn_v.bias", il), {n_kv}, WeightUse::add, Presence::usual, il});
    }
}

void WeightSource::head_norms(int32_t il, const HParams & hp, LayerWeights & layer) {
    layer.q_norm = norm(block_name("attn_q_norm", il), hp.layer(il).head_dim, il);
    layer.k_norm = norm(block_name("attn_k_norm", il), hp.layer(il).head_dim, il);
}

void WeightSource::swiglu(int32_t il, const HParams & hp, LayerWeights & layer) {
    layer.ffn_norm = norm(block_name("ffn_norm", il), hp.n_embd, il);
    layer.gate     = linear(block_name("ffn_gate", il), hp.n_embd, hp.n_ff, il);
    layer.up       = linear(block_name("ffn_up", il), hp.n_embd, hp.n_ff, il);
    layer.down     = linear(block_name("ffn_down", il), hp.n_ff, hp.n_embd, il);
}

void WeightSource::experts(int32_t il, const HParams & hp, LayerWeights & layer, Presence select_bias) {
    const ExpertParams & x = hp.experts;
    const int64_t        E = hp.n_embd;
    if (il < x.n_dense || has(block_name("ffn_gate.weight", il), Presence::optional)) {
        swiglu(il, hp, layer);
        return;
    }
    const auto all = [&](const char * part, int64_t n_in, int64_t n_out) {
        return get({block_name(part, il), {n_in, n_out, x.n_expert}, WeightUse::experts, Presence::required, il});
    };
    layer.ffn_norm = norm(block_name("ffn_norm", il), E, il);
    layer.experts.router =
        get({block_name("ffn_gate_inp.weight", il), {E, x.n_expert}, WeightUse::matmul, Presence::required, il});
    layer.experts.gate = all("ffn_gate_exps.weight", E, x.n_ff);
    layer.experts.up   = all("ffn_up_exps.weight", E, x.n_ff);
    layer.experts.down = all("ffn_down_exps.weight", x.n_ff, E);
    layer.experts.select_bias =
        get({block_name("exp_probs_b.bias", il), {x.n_expert}, WeightUse::add, select_bias, il});
    if (x.n_ff_shared > 0) {
        layer.gate = linear(block_name("ffn_gate_shexp", il), E, x.n_ff_shared, il);
        layer.up   = linear(block_name("ffn_up_shexp", il), E, x.n_ff_shared, il);
        layer.down = linear(block_name("ffn_down_shexp", il), x.n_ff_shared, E, il);
    }
}

void WeightSource::experts_beside(int32_t il, const HParams & hp, LayerWeights & layer) {
    const ExpertParams & x = hp.experts;
    const int64_t        E = hp.n_embd, F = x.n_ff, X = x.n_expert;
    const auto           one = [&](const char * part, const std::vector<int64_t> & shape, WeightUse use) {
        return get({block_name(part, il), shape, use, Presence::required, il});
    };
    layer.experts.router      = one("ffn_gate_inp.weight", {E, X}, WeightUse::matmul);
    layer.experts.route_scale = one("ffn_gate_inp.scale", {E}, WeightUse::multiply);
    if (has(block_name("ffn_gate_up_exps.weight", il), Presence::usual)) {
        layer.experts.gate_up = one("ffn_gate_up_exps.weight", {E, 2 * F, X}, WeightUse::experts);
    } else {
        layer.experts.gate = one("ffn_gate_exps.weight", {E, F, X}, WeightUse::experts);
        layer.experts.up   = one("ffn_up_exps.weight", {E, F, X}, WeightUse::experts);
    }
    layer.experts.down      = one("ffn_down_exps.weight", {F, E, X}, WeightUse::experts);
    layer.experts.out_scale = one("ffn_down_exps.scale", {X}, WeightUse::multiply);
}

void load_common(WeightSource & source, const HParams & hp, bool tied, Weights & weights) {
    const std::vector<int64_t> shape = {hp.n_embd, hp.n_vocab};

    weights.embed       = source.get({"token_embd.weight", shape, WeightUse::lookup, Presence::required, -1});
    weights.output_norm = source.norm("output_norm", hp.n_embd, hp.n_layer);
    weights.output =
        tied ? Linear{source.get({"token_embd.weight", shape, WeightUse::matmul, Presence::required, hp.n_layer})}
             : source.linear("output", hp.n_embd, hp.n_vocab, hp.n_layer);
}

} // namespace buoy
