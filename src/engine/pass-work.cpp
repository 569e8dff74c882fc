#include "engine/pass-work.h"

#include "base/split-work.h"

#include <ggml-backend.h>

#include <algorithm>
#include <array>
#include <map>

namespace buoy {

namespace {

// Measured on a Zen 4 with Q4_0 weights: 15 weights are read, or 100 multiplied from a cache, in a nanosecond.
constexpr int64_t read_cost = 7;

int64_t product_cost(const ggml_tensor & weights, int64_t n_results) {
    const int64_t n = n_results * weights.ne[0];
    return n + std::min(n, ggml_nelements(&weights)) * read_cost;
}

// What an operation multiplies: rows with one matrix or with several, or queries with keys and values.
struct NodeWork {
    std::array<const ggml_tensor *, 2> matrices{};
    int64_t                            n_results   = 0; // of each matrix
    int64_t                            n_attention = 0;
};

int64_t attention_of(const ggml_tensor & node) { return ggml_nelements(node.src[0]) * node.src[1]->ne[1] * 2; }

// Products have the weights first and the packed rows behind them, those of experts a route as well; attention has q and k first.
NodeWork work_of_ours(const ggml_tensor & node) {
    NodeWork work;
    size_t   n = 0;
    while (n < GGML_MAX_SRC && node.src[n] != nullptr && node.src[n]->type != GGML_TYPE_I8) {
        n++;
    }
    if (n > 0 && n <= work.matrices.size() && node.src[n] != nullptr) {
        std::copy_n(node.src, n, work.matrices.begin());
        const ggml_tensor * route = node.src[n + 1]; // is made of the experts that each row chose
        work.n_results = route != nullptr ? node.ne[0] * ggml_nelements(route->src[0]) : ggml_nelements(&node);
        return work;
    }
    const bool is_attention = node.src[1] != nullptr && node.src[1]->ne[0] == node.src[0]->ne[0];
    work.n_attention        = is_attention ? attention_of(node) : 0; // else packing, sums, summaries
    return work;
}

NodeWork work_of(const ggml_tensor & node) {
    switch (node.op) {
        case GGML_OP_MUL_MAT:
        case GGML_OP_MUL_MAT_ID: return {{node.src[0]}, ggml_nelements(&node), 0};
        case GGML_OP_FLASH_ATTN_EXT: return {{}, 0, attention_of(node)};
        case GGML_OP_CUSTOM: return work_of_ours(node);
        default: return {};
    }
}

bool is_weight(const ggml_tensor & tensor) {
    return tensor.buffer != nullptr &&
           ggml_backend_buffer_get_usage(tensor.buffer) == GGML_BACKEND_BUFFER_USAGE_WEIGHTS;
}

int64_t & counter_of(ProductWork & work, ggml_type type) {
    switch (type) {
        case GGML_TYPE_F32: return work.f32;
        case GGML_TYPE_F16: return work.f16;
        case GGML_TYPE_BF16: return work.bf16;
        default: return work.quantised;
    }
}

} // namespace

int64_t pass_cost(ggml_cgraph * graph) {
    int64_t sum = 0;
    for (int i = 0; i < ggml_graph_n_nodes(graph); i++) {
        const NodeWork work = work_of(*ggml_graph_node(graph, i));
        sum += work.n_attention;
        for (const ggml_tensor * matrix : work.matrices) {
            sum += matrix != nullptr ? product_cost(*matrix, work.n_results) : 0;
        }
    }
    return sum;
}

ProductWork product_work(ggml_cgraph * graph) {
    ProductWork                            sum;
    std::map<const ggml_tensor *, int64_t> n_read; // values of each
    for (int i = 0; i < ggml_graph_n_nodes(graph); i++) {
        const NodeWork work = work_of(*ggml_graph_node(graph, i));
        for (const ggml_tensor * matrix : work.matrices) {
            if (matrix != nullptr && is_weight(*matrix)) {
                counter_of(sum, matrix->type) += work.n_results * matrix->ne[0];
                int64_t & n = n_read[matrix];
                n           = std::min(n + work.n_results * matrix->ne[0], ggml_nelements(matrix));
            }
        }
    }
    for (const auto & [matrix, n] : n_read) {
        sum.weight_bytes += ggml_row_size(matrix->type, n);
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
