#include "engine/memory-use.h"

#include "engine/request-check.h"
#include "graph/kv-store.h"
#include "io/gguf-file.h"

#include <algorithm>
#include <limits>

namespace buoy {

MemoryUse estimate_memory(const GgufFile & file, const std::string & arch, const ContextParams & params) {
    constexpr size_t  compute_base = size_t(64) << 20;
    constexpr int64_t head_rows    = 1024; // at once
    constexpr int64_t piece_rows   = 256;  // of a long pass's widest activations

    const auto key = [&](const char * name, int64_t fallback) {
        const std::string full  = arch + name;
        const int64_t     value = file.is_array(full) ? fallback : file.get_int(full).value_or(fallback);
        return std::clamp<int64_t>(value, 0, std::numeric_limits<int32_t>::max());
    };
    const auto floats = [](int64_t a, int64_t b) {
        return static_cast<double>(a) * static_cast<double>(b) * double(sizeof(float));
    };
    const int64_t n_embd    = key(".embedding_length", 0);
    const int64_t n_head    = std::max<int64_t>(key(".attention.head_count", 1), 1);
    const int64_t head_dim  = key(".attention.key_length", n_embd / n_head);
    const int64_t n_head_kv = key(".attention.head_count_kv", n_head);
    const int64_t n_ff =
        std::max(key(".feed_forward_length", 0), key(".expert_feed_forward_length", 0) * key(".expert_used_count", 0));
    const int64_t n_ctx    = choose_n_ctx(params, static_cast<int32_t>(key(".context_length", 0)));
    const int64_t n_tokens = n_ctx * std::max(params.n_sequences, 1);
    const auto *  embed    = file.find_tensor("token_embd.weight");
    const int64_t n_vocab  = embed != nullptr ? embed->ne[1] : 0;
    const auto    kv_bytes = [&](KvType type) {
        const ggml_type t = kv_ggml_type(type);
        return static_cast<double>(ggml_type_size(t)) / static_cast<double>(ggml_blck_size(t)) *
               static_cast<double>(head_dim) * static_cast<double>(n_head_kv) * static_cast<double>(n_tokens);
    };
    const double scores = params.flash == FlashAttention::off ? floats(n_tokens, n_ctx) * double(n_head) * 2 : 0.0;
    const auto   bytes  = [](double n) { return static_cast<size_t>(std::min(n, 1e15)); };

    MemoryUse use;
    use.kv_per_layer = bytes(kv_bytes(params.type_k) + kv_bytes(params.type_v));
    use.compute =
        compute_base + bytes(floats(n_tokens, n_embd) * 8 + floats(std::min(n_tokens, piece_rows), n_ff) * 3 + scores);
    use.compute_head = bytes(floats(std::min(n_tokens, head_rows), n_vocab) * 2);
    return use;
}

} // namespace buoy
