#pragma once

#include "buoy/model.h"

#include <cstdint>

namespace buoy {

class GgufFile;

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

// The numbers a forward pass is built from. T, K, … of the legend are per request; these are per model.
struct HParams {
    int32_t    n_vocab     = 0; // V
    int32_t    n_embd      = 0; // E
    int32_t    n_layer     = 0; // L
    int32_t    n_head      = 0; // H
    int32_t    n_head_kv   = 0; // Hkv
    int32_t    head_dim    = 0; // D
    int32_t    n_ff        = 0; // F
    int32_t    n_ctx_train = 0;
    float      norm_eps    = 0.0f;
    RopeParams rope;

    float attn_scale() const; // of scores before the softmax
};

// What an architecture assumes where the file is silent.
struct ArchDefaults {
    RopeKind      rope      = RopeKind::norm;
    AttentionKind attention = AttentionKind::causal;
    bool          shift     = true;
};

// Reads and checks the keys every decoder shares; throws Error naming file and key.
HParams read_hparams(const GgufFile & file, const std::string & arch, const ArchDefaults & defaults);
Traits  read_traits(const GgufFile & file, const std::string & arch, const ArchDefaults & defaults);

} // namespace buoy
