#include "engine/pass-work.h"

#include "base/split-work.h"

#include <algorithm>

namespace buoy {

namespace {

// Measured on a Zen 4 with Q4_0 weights: 15 weights are read, or 100 multiplied from a cache, in a nanosecond.
constexpr int64_t read_cost = 7;

int64_t product_cost(const ggml_tensor & weights, int64_t n_results) {
    const int64_t n = n_results * weights.ne[0];
    return n + std::min(n, ggml_nelements(&weights)) * read_cost;
}

// Products have the weights first and the packed rows behind them, attention has q and k first.
int64_t cost_of_ours(const ggml_tensor & node) {
    for (int64_t i = 1; i < GGML_MAX_SRC && node.src[i] != nullptr; i++) {
        if (node.src[i]->type == GGML_TYPE_I8) {
            return product_cost(*node.src[0], ggml_nelements(&node)) * i;
        }
    }
    const bool is_attention = node.src[1] != nullptr && node.src[1]->ne[0] == node.src[0]->ne[0];
    return is_attention ? ggml_nelements(node.src[0]) * node.src[1]->ne[1] * 2 : 0; // else packing, sums, summaries
}

int64_t cost_of(const ggml_tensor & node) {
    switch (node.op) {
        case GGML_OP_MUL_MAT:
        case GGML_OP_MUL_MAT_ID: return product_cost(*node.src[0], ggml_nelements(&node));
        case GGML_OP_FLASH_ATTN_EXT: return ggml_nelements(node.src[0]) * node.src[1]->ne[1] * 2;
        case GGML_OP_CUSTOM: return cost_of_ours(node);
        default: return 0;
    }
}

} // namespace

int64_t pass_cost(ggml_cgraph * graph) {
    int64_t sum = 0;
    for (int i = 0; i < ggml_graph_n_nodes(graph); i++) {
        sum += cost_of(*ggml_graph_node(graph, i));
    }
    return sum;
}

int64_t pass_cost(int64_t n_weights, int64_t n_rows) { return n_weights * (n_rows + read_cost); }

int thread_count_for(int64_t cost, int32_t asked) {
    constexpr int64_t worth_a_thread = 100'000'000; // a millisecond
    const int         n_max          = thread_count(asked);
    return asked > 0 ? n_max : static_cast<int>(std::clamp<int64_t>(cost / worth_a_thread, 1, n_max));
}

} // namespace buoy
