#include "support/tiny-gemma.h"

#include "support/paths.h"
#include "support/vocab-gguf.h"

#include <ggml-cpp.h>
#include <gguf.h>

#include <random>
#include <stdexcept>

namespace buoy::test {

namespace {

constexpr int64_t E = 64, H = 4, Hkv = 2, D = 32, F = 96, L = 2;

void add_tensor(gguf_context * gguf, ggml_context * ctx, std::mt19937 & random, const std::string & name, int64_t ne0,
                int64_t ne1) {
    ggml_tensor * tensor =
        ne1 > 0 ? ggml_new_tensor_2d(ctx, GGML_TYPE_F32, ne0, ne1) : ggml_new_tensor_1d(ctx, GGML_TYPE_F32, ne0);
    ggml_set_name(tensor, name.c_str());
    std::normal_distribution<float> weight(ne1 > 0 ? 0.0f : 1.0f, ne1 > 0 ? 0.25f : 0.1f);
    for (int64_t i = 0; i < ggml_nelements(tensor); i++) {
        static_cast<float *>(tensor->data)[i] = weight(random);
    }
    gguf_add_tensor(gguf, tensor);
}

} // namespace

std::string tiny_gemma(const TinyGemma & keys) {
    const VocabGguf        vocab = small_vocab();
    const gguf_context_ptr gguf(gguf_init_empty());
    vocab.set_keys(gguf.get());

    const auto set_int = [&](const char * key, uint32_t value) {
        gguf_set_val_u32(gguf.get(), (keys.arch + key).c_str(), value);
    };
    gguf_set_val_str(gguf.get(), "general.architecture", keys.arch.c_str());
    gguf_set_val_str(gguf.get(), "general.name", "tiny");
    set_int(".block_count", keys.n_layer_key);
    set_int(".context_length", 1024);
    set_int(".embedding_length", E);
    set_int(".feed_forward_length", F);
    set_int(".attention.head_count", keys.n_head_key);
    set_int(".attention.head_count_kv", Hkv);
    set_int(".attention.key_length", D);
    set_int(".attention.value_length", D);
    gguf_set_val_f32(gguf.get(), (keys.arch + ".attention.layer_norm_rms_epsilon").c_str(), 1e-6f);

    const ggml_context_ptr ctx(ggml_init({16u << 20, nullptr, false}));
    std::mt19937           random(7);
    const auto             add = [&](const std::string & name, int64_t ne0, int64_t ne1 = 0) {
        add_tensor(gguf.get(), ctx.get(), random, name + ".weight", ne0, ne1);
    };
    add("token_embd", E, static_cast<int64_t>(vocab.tokens.size()));
    add("output_norm", E);
    for (int64_t il = 0; il < L; il++) {
        const std::string block = "blk." + std::to_string(il) + ".";
        add(block + "attn_norm", E);
        add(block + "attn_q", E, H * D);
        add(block + "attn_k", E, Hkv * D);
        add(block + "attn_v", E, Hkv * D);
        add(block + "attn_output", H * D, E);
        add(block + "ffn_norm", E);
        add(block + "ffn_gate", E, F);
        add(block + "ffn_up", E, F);
        add(block + "ffn_down", F, E);
    }
    const std::string path = temp_dir() + "/tiny-gemma.gguf";
    if (!gguf_write_to_file(gguf.get(), path.c_str(), false)) {
        throw std::runtime_error("cannot write " + path);
    }
    return path;
}

} // namespace buoy::test
