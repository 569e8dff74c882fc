#include "kernel/matmul.h"

#include "kernel/kernels.h"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

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
    Prefetch() = default;
    Prefetch(const uint8_t * from, const uint8_t * to, int64_t n_steps)
        : at_(from), end_(to), step_((to - from) / std::max<int64_t>(1, n_steps) + line) {}

    void step() {
        for (const uint8_t * stop = std::min(at_ + step_, end_); at_ < stop; at_ += line) {
            __builtin_prefetch(at_);
        }
    }

private:
    static constexpr ptrdiff_t line = 64;

    const uint8_t * at_   = nullptr;
    const uint8_t * end_  = nullptr;
    ptrdiff_t       step_ = 0;
};

struct Output {
    float * data; // room for eight columns
    size_t  stride;
};

// Eight rows of weights from the first on, and where their products go.
struct Operand {
    const ggml_tensor * w;
    int64_t             first;
    Output              to;
};

// One or two of the same type and outputs of the same stride with all of x, a tile of columns after the other.
void multiply_rows(std::span<const Operand> operands, const ggml_tensor * packed, int64_t n) {
    const ggml_tensor *  w        = operands[0].w;
    const WeightKernel & kernel   = *weight_kernel(w->type);
    const int64_t        n_blocks = w->ne[0] / kernel_block;
    const int64_t        n_tiles  = (n_blocks + kernel.block_limit - 1) / kernel.block_limit;
    const auto           row_at   = [](const Operand & o, int64_t row) { // or the end
        return static_cast<const uint8_t *>(o.w->data) + o.w->nb[1] * static_cast<size_t>(std::min(row, o.w->ne[1]));
    };
    std::array<Prefetch, 2> prefetch; // of the rows behind these
    const int64_t           n_rows = kernel_rows * (operands.size() == 2 && operands[0].w == operands[1].w ? 2 : 1);
    for (size_t i = 0; i < operands.size(); i++) {
        const int64_t next = operands[i].first + n_rows;
        prefetch[i] =
            Prefetch(row_at(operands[i], next), row_at(operands[i], next + kernel_rows), packed->ne[1] * n_tiles);
    }
    WeightTile   tiles[2];
    const size_t stride = operands[0].to.stride;
    for (int64_t at = 0; at < n_blocks; at += kernel.block_limit) {
        const int64_t count = std::min(kernel.block_limit, n_blocks - at);
        for (size_t i = 0; i < operands.size(); i++) {
            const Operand & o = operands[i];
            kernel.unpack({row_at(o, o.first), o.w->nb[1], std::min(kernel_rows, o.w->ne[1] - o.first), at, count},
                          tiles[i]);
        }
        for (int64_t quad = 0; quad < packed->ne[1]; quad++) {
            const int64_t row = quad * kernel_quad, n_here = std::min(kernel_quad, n - row);
            const auto *  x = reinterpret_cast<const PackedBlock *>(static_cast<const char *>(packed->data) +
                                                                   packed->nb[1] * static_cast<size_t>(quad)) +
                             at;
            const auto y = [&](size_t i) { return operands[i].to.data + stride * static_cast<size_t>(row); };
            for (Prefetch & next : prefetch) {
                next.step();
            }
            if (operands.size() == 2) {
                kernel.multiply_two(tiles[0], tiles[1], x, count, at == 0, y(0), y(1), stride, n_here);
            } else {
                kernel.multiply(tiles[0], x, count, at == 0, y(0), stride, n_here);
            }
        }
    }
}

// The columns [first, first + 8) of dst, or as many as it has; from is [n, 8].
void copy_columns(const std::vector<float> & from, const ggml_tensor * dst, int64_t first) {
    const int64_t n_cols = std::min(kernel_rows, dst->ne[0] - first);
    for (int64_t row = 0; row < dst->ne[1]; row++) {
        const float * some = from.data() + row * kernel_rows;
        std::copy(some, some + n_cols, static_cast<float *>(dst->data) + dst->ne[0] * row + first);
    }
}

void run_multiply(ggml_tensor * dst, int ith, int nth, void *) {
    const ggml_tensor * w = dst->src[0];
    const ggml_tensor * x = dst->src[1];
    const int64_t       M = dst->ne[0], N = dst->ne[1], n_groups = (M + kernel_rows - 1) / kernel_rows;
    const auto          in_place = [&](int64_t group) {
        const int64_t first = group * kernel_rows;
        return Operand{w, first, {static_cast<float *>(dst->data) + first, static_cast<size_t>(M)}};
    };
    const int64_t n_whole = M / kernel_rows, last = part(n_groups, ith + 1, nth);
    for (int64_t group = part(n_groups, ith, nth); group < last;) {
        if (group + 2 <= std::min(n_whole, last)) {
            const Operand both[] = {in_place(group), in_place(group + 1)};
            multiply_rows(both, x, N);
            group += 2;
        } else if (group < n_whole) {
            const Operand one[] = {in_place(group++)};
            multiply_rows(one, x, N);
        } else {
            std::vector<float> ragged(static_cast<size_t>(kernel_rows * N));
            const Operand      one[] = {{w, group * kernel_rows, {ragged.data(), kernel_rows}}};
            multiply_rows(one, x, N);
            copy_columns(ragged, dst, group++ * kernel_rows);
        }
    }
}

void run_gated(ggml_tensor * dst, int ith, int nth, void *) {
    const ggml_tensor * x = dst->src[2];
    const int64_t       N = dst->ne[1], n_groups = (dst->ne[0] + kernel_rows - 1) / kernel_rows;
    std::vector<float>  gate(static_cast<size_t>(kernel_rows * N)), up(gate.size());
    for (int64_t group = part(n_groups, ith, nth); group < part(n_groups, ith + 1, nth); group++) {
        const int64_t first  = group * kernel_rows;
        const Operand both[] = {{dst->src[0], first, {gate.data(), kernel_rows}},
                                {dst->src[1], first, {up.data(), kernel_rows}}};
        if (dst->src[0]->type == dst->src[1]->type) {
            multiply_rows(both, x, N);
        } else {
            multiply_rows({both, 1}, x, N);
            multiply_rows({both + 1, 1}, x, N);
        }
        kernel_table()->gate(gate.data(), up.data(), kernel_rows * N);
        copy_columns(gate, dst, first);
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

ggml_tensor * mul_packed_gated(ggml_context * ctx, ggml_tensor * gate, ggml_tensor * up, ggml_tensor * packed,
                               int64_t n_rows) {
    ggml_tensor * args[] = {gate, up, packed};
    return ggml_custom_4d(ctx, GGML_TYPE_F32, up->ne[1], n_rows, 1, 1, args, 3, run_gated, GGML_N_TASKS_MAX, nullptr);
}

} // namespace buoy
