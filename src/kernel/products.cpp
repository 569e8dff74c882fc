#include "kernel/products.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

namespace buoy {

namespace {

// A group of weights, and where its products go: room for eight columns.
struct Operand {
    const WeightMatrix * w;
    int64_t              group;
    ResultRows           to;
};

const uint8_t * row_at(const WeightMatrix & w, int64_t row) { // or the end
    return w.data + w.row_size * static_cast<size_t>(std::min(row, w.n_rows));
}

// A stretch of a group's columns; meanwhile the same share of the rows `distance` groups further comes closer.
WeightSpan span_of(const WeightMatrix & w, int64_t group, int64_t block_first, int64_t block_count, int64_t distance) {
    const int64_t   row = group * kernel_rows, n_blocks = w.n_cols / kernel_block;
    const uint8_t * next      = row_at(w, row + distance * kernel_rows);
    const auto      next_size = static_cast<size_t>(row_at(w, row + (distance + 1) * kernel_rows) - next);
    const auto      share     = [&](int64_t block) {
        return next_size * static_cast<size_t>(block) / static_cast<size_t>(n_blocks);
    };
    const size_t first = share(block_first), last = share(block_first + block_count);
    return {row_at(w, row), w.row_size,  std::min(kernel_rows, w.n_rows - row), block_first, block_count,
            next + first,   last - first};
}

// One or two of the same type and outputs of the same stride with all of x, a tile of columns after the other.
void multiply(std::span<const Operand> operands, const PackedRows & x) {
    const WeightKernel & kernel   = *operands[0].w->kernel;
    const int64_t        n_blocks = operands[0].w->n_cols / kernel_block;
    const int64_t        distance = operands.size() == 2 && operands[0].w == operands[1].w ? 2 : 1;
    if (x.n == 1) {
        for (const Operand & o : operands) {
            kernel.multiply_one(span_of(*o.w, o.group, 0, n_blocks, distance), x.quad(0), o.to.data);
        }
        return;
    }
    WeightTile   tiles[2];
    const size_t stride = operands[0].to.stride;
    for (int64_t at = 0; at < n_blocks; at += kernel.block_limit) {
        const int64_t count = std::min(kernel.block_limit, n_blocks - at);
        for (size_t i = 0; i < operands.size(); i++) {
            kernel.unpack(span_of(*operands[i].w, operands[i].group, at, count, distance), tiles[i]);
        }
        for (int64_t quad = 0; quad < x.quad_count(); quad++) {
            const int64_t       row = quad * kernel_quad, n_here = std::min(kernel_quad, x.n - row);
            const PackedBlock * blocks = x.quad(quad) + at;
            const auto          y = [&](size_t i) { return operands[i].to.data + stride * static_cast<size_t>(row); };
            if (operands.size() == 2) {
                kernel.multiply_two(tiles[0], tiles[1], blocks, count, at == 0, y(0), y(1), stride, n_here);
            } else {
                kernel.multiply(tiles[0], blocks, count, at == 0, y(0), stride, n_here);
            }
        }
    }
}

// The columns of a group, or as many as there are of w; from is [n, 8].
void copy_group(const std::vector<float> & from, const WeightMatrix & w, int64_t group, int64_t n,
                const ResultRows & to) {
    const int64_t first = group * kernel_rows, n_cols = std::min(kernel_rows, w.n_rows - first);
    for (int64_t row = 0; row < n; row++) {
        const float * some = from.data() + row * kernel_rows;
        float *       at   = to.data + to.stride * static_cast<size_t>(row) + first;
        if (n_cols == kernel_rows) { // of a known length, without a call
            std::memcpy(at, some, kernel_rows * sizeof(float));
        } else {
            std::copy(some, some + n_cols, at);
        }
    }
}

} // namespace

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
        case GGML_TYPE_Q2_K: return &table->q2_k;
        case GGML_TYPE_Q3_K: return &table->q3_k;
        case GGML_TYPE_Q4_K: return &table->q4_k;
        case GGML_TYPE_Q5_K: return &table->q5_k;
        case GGML_TYPE_Q6_K: return &table->q6_k;
        case GGML_TYPE_IQ4_NL: return &table->iq4_nl;
        case GGML_TYPE_IQ4_XS: return &table->iq4_xs;
        case GGML_TYPE_MXFP4: return &table->mxfp4;
        default: return nullptr;
    }
}

WeightMatrix weight_matrix(const ggml_tensor & w, int64_t index) {
    return {weight_kernel(w.type), static_cast<const uint8_t *>(w.data) + w.nb[2] * static_cast<size_t>(index), w.nb[1],
            w.ne[0], w.ne[1]};
}

void multiply_groups(const WeightMatrix & w, const PackedRows & x, int64_t first, int64_t last, const ResultRows & to) {
    const auto in_place = [&](int64_t group) { return Operand{&w, group, {to.data + group * kernel_rows, to.stride}}; };
    const int64_t n_whole = w.n_rows / kernel_rows;
    for (int64_t group = first; group < last;) {
        if (group + 2 <= std::min(n_whole, last)) {
            const Operand both[] = {in_place(group), in_place(group + 1)};
            multiply(both, x);
            group += 2;
        } else if (group < n_whole) {
            const Operand one[] = {in_place(group++)};
            multiply(one, x);
        } else {
            std::vector<float> ragged(static_cast<size_t>(kernel_rows * x.n));
            const Operand      one[] = {{&w, group, {ragged.data(), kernel_rows}}};
            multiply(one, x);
            copy_group(ragged, w, group++, x.n, to);
        }
    }
}

void multiply_groups_gated(const WeightMatrix & gate, const WeightMatrix & up, const PackedRows & x, int64_t first,
                           int64_t last, const ResultRows & to, Gating gating) {
    if (first >= last) {
        return;
    }
    std::vector<float> of_gate(static_cast<size_t>(kernel_rows * x.n)), of_up(of_gate.size());
    for (int64_t group = first; group < last; group++) {
        const Operand both[] = {{&gate, group, {of_gate.data(), kernel_rows}},
                                {&up, group, {of_up.data(), kernel_rows}}};
        if (gate.kernel == up.kernel) {
            multiply(both, x);
        } else {
            multiply({both, 1}, x);
            multiply({both + 1, 1}, x);
        }
        (gating == Gating::gelu ? kernel_table()->gate_gelu : kernel_table()->gate)(of_gate.data(), of_up.data(),
                                                                                    kernel_rows * x.n);
        copy_group(of_gate, gate, group, x.n, to);
    }
}

} // namespace buoy
