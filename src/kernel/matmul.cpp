#include "kernel/matmul.h"

#include "kernel/kernels.h"

#include <algorithm>

namespace buoy {

namespace {

const WeightKernel * weight_kernel(ggml_type type) {
    const KernelTable * table = kernel_table();
    if (table == nullptr) {
        return nullptr;
    }
    switch (type) {
        case GGML_TYPE_Q4_0: return &table->q4_0;
        case GGML_TYPE_Q4_1: return &table->q4_1;
        case GGML_TYPE_Q5_0: return &table->q5_0;
        case GGML_TYPE_Q5_1: return &table->q5_1;
        case GGML_TYPE_Q8_0: return &table->q8_0;
        case GGML_TYPE_Q4_K: return &table->q4_k;
        case GGML_TYPE_Q5_K: return &table->q5_k;
        case GGML_TYPE_Q6_K: return &table->q6_k;
        default: return nullptr;
    }
}

int64_t part(int64_t n, int ith, int nth) { return n * ith / nth; }

void run_pack(ggml_tensor * dst, int ith, int nth, void *) {
    const ggml_tensor * x        = dst->src[0];
    const int64_t       n_blocks = x->ne[0] / kernel_block;
    for (int64_t quad = part(dst->ne[1], ith, nth); quad < part(dst->ne[1], ith + 1, nth); quad++) {
        const int64_t first = quad * kernel_quad;
        const auto *  from  = static_cast<const char *>(x->data) + x->nb[1] * static_cast<size_t>(first);
        auto *        to    = static_cast<char *>(dst->data) + dst->nb[1] * static_cast<size_t>(quad);
        kernel_table()->pack(reinterpret_cast<const float *>(from), x->nb[1] / sizeof(float),
                             std::min(kernel_quad, x->ne[1] - first), n_blocks, reinterpret_cast<PackedBlock *>(to));
    }
}

// Brings what is needed next closer, a little at a time.
class Prefetch {
public:
    Prefetch(const uint8_t * from, const uint8_t * to, int64_t n_steps)
        : at_(from), end_(to), step_((to - from) / std::max<int64_t>(1, n_steps) + line) {}

    void step() {
        for (const uint8_t * stop = std::min(at_ + step_, end_); at_ < stop; at_ += line) {
            __builtin_prefetch(at_);
        }
    }

private:
    static constexpr ptrdiff_t line = 64;

    const uint8_t * at_;
    const uint8_t * end_;
    ptrdiff_t       step_;
};

// Eight rows of weights with all of x, a tile of columns after the other.
void multiply_rows(const WeightKernel & kernel, const ggml_tensor * dst, int64_t first) {
    const ggml_tensor * w        = dst->src[0];
    const ggml_tensor * packed   = dst->src[1];
    const int64_t       n_blocks = w->ne[0] / kernel_block;
    const int64_t       n_rows   = std::min(kernel_rows, w->ne[1] - first);
    const auto *        rows     = static_cast<const uint8_t *>(w->data) + w->nb[1] * static_cast<size_t>(first);
    const size_t        M        = static_cast<size_t>(dst->ne[0]);
    const auto *        end      = static_cast<const uint8_t *>(w->data) + ggml_nbytes(w);
    const auto *        next     = std::min(rows + w->nb[1] * kernel_rows, end);
    Prefetch            prefetch(next, std::min(next + w->nb[1] * kernel_rows, end),
                                 packed->ne[1] * ((n_blocks + kernel.block_limit - 1) / kernel.block_limit));
    WeightTile          tile;
    float               ragged[kernel_quad * kernel_rows];
    for (int64_t at = 0; at < n_blocks; at += kernel.block_limit) {
        const int64_t count = std::min(kernel.block_limit, n_blocks - at);
        kernel.unpack({rows, w->nb[1], n_rows, at, count}, tile);
        for (int64_t quad = 0; quad < packed->ne[1]; quad++) {
            const auto *  x      = static_cast<const char *>(packed->data) + packed->nb[1] * static_cast<size_t>(quad);
            const auto *  blocks = reinterpret_cast<const PackedBlock *>(x) + at;
            const int64_t n      = std::min(kernel_quad, dst->ne[1] - quad * kernel_quad);
            prefetch.step();
            float *       y = static_cast<float *>(dst->data) + M * static_cast<size_t>(quad * kernel_quad) + first;
            if (n_rows == kernel_rows) {
                kernel.multiply(tile, blocks, count, at == 0, y, M, n);
                continue;
            }
            kernel.multiply(tile, blocks, count, true, ragged, kernel_rows, n);
            for (int64_t r = 0; r < n; r++) {
                for (int64_t i = 0; i < n_rows; i++) {
                    float & out = y[M * static_cast<size_t>(r) + static_cast<size_t>(i)];
                    out         = (at == 0 ? 0.0f : out) + ragged[r * kernel_rows + i];
                }
            }
        }
    }
}

void run_multiply(ggml_tensor * dst, int ith, int nth, void *) {
    const WeightKernel & kernel = *weight_kernel(dst->src[0]->type);
    const int64_t        n      = (dst->ne[0] + kernel_rows - 1) / kernel_rows;
    for (int64_t group = part(n, ith, nth); group < part(n, ith + 1, nth); group++) {
        multiply_rows(kernel, dst, group * kernel_rows);
    }
}

} // namespace

bool can_mul_packed(ggml_type type, int64_t n_cols) {
    return n_cols % kernel_block == 0 && weight_kernel(type) != nullptr;
}

ggml_tensor * pack_rows(ggml_context * ctx, ggml_tensor * x) {
    const int64_t size  = x->ne[0] / kernel_block * static_cast<int64_t>(sizeof(PackedBlock));
    const int64_t quads = (x->ne[1] + kernel_quad - 1) / kernel_quad;
    return ggml_custom_4d(ctx, GGML_TYPE_I8, size, quads, 1, 1, &x, 1, run_pack, GGML_N_TASKS_MAX, nullptr);
}

ggml_tensor * mul_packed(ggml_context * ctx, ggml_tensor * w, ggml_tensor * packed, int64_t n_rows) {
    ggml_tensor * args[] = {w, packed};
    return ggml_custom_4d(ctx, GGML_TYPE_F32, w->ne[1], n_rows, 1, 1, args, 2, run_multiply, GGML_N_TASKS_MAX, nullptr);
}

} // namespace buoy
