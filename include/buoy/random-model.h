#pragma once

#include <cstdint>
#include <string>

namespace buoy {

// A model nobody trained, for tests and benchmarks: the right shapes, random weights, a byte tokenizer.
struct RandomModel {
    std::string arch         = "llada";
    std::string type         = "f32"; // of every matrix; or a mix of the converter's: q3_k_m, q4_k_m, q5_k_m
    int32_t     n_vocab      = 320;   // V, at least 261
    int32_t     n_embd       = 64;    // E
    int32_t     n_layer      = 2;     // L
    int32_t     n_head       = 4;     // H
    int32_t     n_head_kv    = 0;     // Hkv, 0: as many as heads
    int32_t     head_dim     = 0;     // D, 0: E / H
    int32_t     n_ff         = 0;     // F, 0: 3·E
    int32_t     n_ctx        = 4096;
    int32_t     block_length = 0; // > 0: block-causal attention
    int32_t     n_expert     = 8; // X, of a mixture of experts
    int32_t     n_used       = 2; // U, experts per token
    int32_t     n_ff_expert  = 0; // FX, 0: E / 2
    int32_t     n_group      = 0; // G > 1: experts are chosen within half of these groups
    bool        tied         = false;
    bool        chat         = false; // a chat template that passes the last message on as it is
    std::string rope_scaling;         // "", linear or yarn
    float       rope_factor = 4.0f;
    uint64_t    seed        = 1;
};

// "llada:E=1024,L=12,H=16,FF=3072,V=128000": architecture, then any of E L H HKV D FF V C (context) B (block) X U FX G (experts,
// used per token, their width, groups) SEED TYPE TIED CHAT.
RandomModel parse_random_model(const std::string & spec);

void write_random_model(const RandomModel & model, const std::string & path, bool force = false);

} // namespace buoy
