#include "kernel/matmul.h"

#include "kernel/products.h"

#include <algorithm>
#include <array>

namespace buoy {

namespace {

void run_pack(ggml_tensor * dst, int ith, int nth, void *) {
    const ggml_tensor * x        = dst->src[0];
    const int64_t       n_blocks = x->ne[0] / kernel_block;
    for (int64_t quad = part(dst->ne[1], ith, nth); quad < part(dst->ne[1], ith + 1, nth); quad++) {
        std::array<const float *, kernel_quad> rows{};
        const int64_t                          first = quad * kernel_quad, n = std::min(kernel_quad, x->ne[1] - first);
        for (int64_t r = 0; r < n; r++) {
            rows[static_cast<size_t>(r)] = reinterpret_cast<const float *>(static_cast<const char *>(x->data) +
                                                                           x->nb[1] * static_cast<size_t>(first + r));
        }
        auto * to = static_cast<char *>(dst->data) + dst->nb[1] * static_cast<size_t>(quad);
        kernel_table()->pack(rows.data(), n, n_blocks, reinterpret_cast<PackedBlock *>(to));
    }
}

PackedRows rows_of(const ggml_tensor & packed, const ggml_tensor & dst) {
    return {static_cast<const char *>(packed.data), packed.nb[1], dst.ne[1]};
}

ResultRows results_of(const ggml_tensor & dst) {
    return {static_cast<float *>(dst.data), static_cast<size_t>(dst.ne[0])};
}

void run_multiply(ggml_tensor * dst, int ith, int nth, void *) {
    const WeightMatrix w = weight_matrix(*dst->src[0]);
    const int64_t      n = w.group_count();
    multiply_groups(w, rows_of(*dst->src[1], *dst), part(n, ith, nth), part(n, ith + 1, nth), results_of(*dst));
}

void run_gated(ggml_tensor * dst, int ith, int nth, void * gating) {
    const WeightMatrix gate = weight_matrix(*dst->src[0]), up = weight_matrix(*dst->src[1]);
    const int64_t      n = gate.group_count();
    multiply_groups_gated(gate, up, rows_of(*dst->src[2], *dst), part(n, ith, nth), part(n, ith + 1, nth),
                          results_of(*dst), gating_of(gating));
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
                               int64_t n_rows, Gating gating) {
    ggml_tensor * args[] = {gate, up, packed};
    return ggml_custom_4d(ctx, GGML_TYPE_F32, up->ne[1], n_rows, 1, 1, args, 3, run_gated, GGML_N_TASKS_MAX,
                          as_userdata(gating));
}

} // namespace buoy
