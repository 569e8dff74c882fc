#pragma once

#include "buoy/model.h"

#include <cstdint>
#include <string>
#include <vector>

namespace buoy {

// Which halves of a head RoPE rotates together: neighbours (norm) or i and i + D/2 (neox).
enum class RopeKind { norm, neox };

struct RopeParams {
    RopeKind kind        = RopeKind::norm;
    int32_t  n_dims      = 0; // the first n_dims of a head are rotated
    int32_t  n_ctx_orig  = 0; // YaRN: length the model was trained at before scaling
    float    freq_base   = 10000.0f;
    float    freq_scale  = 1.0f; // 1 / scaling factor
    float    ext_factor  = 0.0f; // 1 for YaRN
    float    attn_factor = 1.0f;
    float    beta_fast   = 32.0f;
    float    beta_slow   = 1.0f;
};

// A mixture of experts: which of them a token goes through, and with what weight.
struct ExpertParams {
    int32_t n_expert     = 0; // X; 0: every layer has an ordinary FFN
    int32_t n_used       = 0; // per token
    int32_t n_ff         = 0; // width of one
    int32_t n_ff_shared  = 0; // width of those that every token goes through; 0: there are none
    int32_t n_dense      = 0; // layers at the beginning that have an ordinary FFN
    int32_t n_group      = 0; // > 1: experts are chosen within the best groups
    int32_t n_group_used = 0;
    bool    sigmoid      = false; // scores are sigmoids instead of a softmax
    bool    norm         = false; // the weights of those chosen are made to sum to one
    bool    gelu         = false; // gates are GELUs instead of SiLUs
    float   scale        = 1.0f;  // of the weights
};

// The numbers of one block's attention, which some models vary from layer to layer.
struct LayerParams {
    int32_t    n_head    = 0;    // H
    int32_t    n_head_kv = 0;    // Hkv
    int32_t    head_dim  = 0;    // D
    int32_t    window    = 0;    // > 0: only keys nearer than that are seen
    float      scale     = 1.0f; // of scores before the softmax
    float      softcap   = 0.0f; // > 0: scores become cap · tanh(score / cap)
    RopeParams rope;

    int64_t n_q() const { return int64_t(head_dim) * n_head; }     // H·D
    int64_t n_kv() const { return int64_t(head_dim) * n_head_kv; } // Hkv·D
};

// The numbers a forward pass is built from. T, K, … of the legend are per request; these are per model.
struct HParams {
    int32_t                  n_vocab       = 0; // V
    int32_t                  n_embd        = 0; // E
    int32_t                  n_layer       = 0; // L
    int32_t                  n_ff          = 0; // F
    int32_t                  n_ctx_train   = 0;
    float                    norm_eps      = 0.0f;
    float                    embed_scale   = 1.0f; // of the embedding
    float                    logit_softcap = 0.0f; // > 0: logits become cap · tanh(logit / cap)
    float                    query_beta    = 0.0f; // queries are scaled by 1 + beta · ln(1 + ⌊position / length⌋)
    int32_t                  query_length  = 1;
    bool                     canvases      = false; // passes are causal, or over a canvas (SequenceKey::canvas)
    ExpertParams             experts;
    std::vector<LayerParams> layers; // [L]

    const LayerParams & layer(int32_t il) const { return layers[static_cast<size_t>(il)]; }
    LayerParams &       layer(int32_t il) { return layers[static_cast<size_t>(il)]; }
};

// What an architecture is, and what it assumes where a file is silent.
struct ArchTraits {
    RopeKind      rope             = RopeKind::norm;
    AttentionKind attention        = AttentionKind::causal;
    bool          shift            = true; // row i predicts token i + 1
    int32_t       block_length     = 0;    // of block-causal attention
    int32_t       sub_block_length = 0;
    bool          exact_blocks     = false; // as Stable-DiffCoder is decoded
    bool          two_modes        = false; // the same weights are autoregressive as well
    bool          canvases         = false; // it reads causally, and writes canvases that begin as random tokens
    bool          windows          = false; // some layers see a window, and may have other heads than the rest
    bool          even_steps       = false; // as RND1 is decoded; then an answer also closes with the padding token
    bool          layer_norm       = false; // norms subtract the mean (LayerNorm, not RMSNorm)
    bool          experts          = false; // FFNs are mixtures of experts
    bool          expert_sigmoid   = false; // their scores
    bool          expert_norm      = true;  // their weights sum to one
    bool          expert_gelu      = false; // their gates

    // what its files usually have; random models are made so
    int32_t usual_dense_layers  = 0; // at the beginning
    int32_t usual_shared        = 0; // experts that every token goes through
    float   usual_expert_scale  = 1.0f;
    float   usual_rotated_share = 1.0f; // of a head
    float   usual_query_beta    = 0.0f;
};

// Reads and checks the keys every decoder shares; throws Error naming file and key.
HParams read_hparams(const GgufFile & file, const std::string & arch, const ArchTraits & traits);
// params: which mode was asked for.
Traits read_traits(const GgufFile & file, const std::string & arch, const ArchTraits & traits,
                   const ModelParams & params = {});

// Run as an autoregressive model, a diffusion model writes nonsense. So a file that may be one, and would run like that because no key
// says what it is, is an Error, unless somebody insists.
void check_causal(const GgufFile & file, const std::string & arch, const Traits & traits, const ModelParams & params);

} // namespace buoy
