#pragma once

#include "kernel/kernels.h"

#include <ggml.h>

namespace buoy {

// Where the work of thread ith of nth begins among n parts; it ends where the next one's begins.
inline int64_t part(int64_t n, int ith, int nth) { return n * ith / nth; }

// Null where this processor has none for that type.
const WeightKernel * weight_kernel(ggml_type type);

// Quantised weights [n_cols, n_rows] in plain memory.
struct WeightMatrix {
    const WeightKernel * kernel;
    const uint8_t *      data;
    size_t               row_size;
    int64_t              n_cols, n_rows;

    int64_t group_count() const { return (n_rows + kernel_rows - 1) / kernel_rows; }
};

WeightMatrix weight_matrix(const ggml_tensor & w, int64_t index = 0); // index: of a stack of them

// n rows in quads, as KernelTable::pack makes them.
struct PackedRows {
    const char * quads;
    size_t       quad_size;
    int64_t      n;

    int64_t             quad_count() const { return (n + kernel_quad - 1) / kernel_quad; }
    const PackedBlock * quad(int64_t i) const {
        return reinterpret_cast<const PackedBlock *>(quads + quad_size * static_cast<size_t>(i));
    }
};

struct ResultRows {
    float * data;
    size_t  stride; // floats from one row to the next
};

// Results of the groups [first, last) of the weights' rows, kernel_rows a group, for every row of x.
void multiply_groups(const WeightMatrix & w, const PackedRows & x, int64_t first, int64_t last, const ResultRows & to);

// silu(gate · x) or gelu(gate · x) times (up · x) of the same groups.
void multiply_groups_gated(const WeightMatrix & gate, const WeightMatrix & up, const PackedRows & x, int64_t first,
                           int64_t last, const ResultRows & to, Gating gating);

// A gating as what ggml hands to an operation.
inline void * as_userdata(Gating gating) { return reinterpret_cast<void *>(static_cast<intptr_t>(gating)); }
inline Gating gating_of(void * userdata) { return static_cast<Gating>(reinterpret_cast<intptr_t>(userdata)); }

} // namespace buoy
