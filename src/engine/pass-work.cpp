#include "engine/pass-work.h"

#include "base/split-work.h"

#include <algorithm>

namespace buoy {

namespace {

// Measured on a Zen 4 with Q4_0 weights: 15 weights are read, or 100 multiplied from a cache, in a nanosecond.
constexpr int64_t read_cost = 7;

int64_t product_cost(const ggml_tensor & weights, int64_t n_results) {
    return n_results * weights.ne[0] + ggml_nelements(&weights) * read_cost;
}

// Products have the weights first and the packed rows last, attention has q and k first.
int64_t cost_of_ours(const ggml_tensor & node) {
    int n_src = 0;
    while (n_src < GGML_MAX_SRC && node.src[n_src] != nullptr) {
        n_src++;
    }
    if (n_src < 2) { // packing, a row's summary
        return 0;
    }
    if (node.src[n_src - 1]->type == GGML_TYPE_I8) {
        return product_cost(*node.src[0], ggml_nelements(&node)) * (n_src - 1);
    }
    return ggml_nelements(node.src[0]) * node.src[1]->ne[1] * 2;
}

int64_t cost_of(const ggml_tensor & node) {
    switch (node.op) {
        case GGML_OP_MUL_MAT: return product_cost(*node.src[0], ggml_nelements(&node));
        case GGML_OP_MUL_MAT_ID:
            return ggml_nelements(&node) * node.src[0]->ne[0] * read_cost; // few rows for each expert
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
