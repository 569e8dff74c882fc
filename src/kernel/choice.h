#pragma once

#include "buoy/model.h"
#include "kernel/kernels.h"

#include <ggml.h>

#include <string>

namespace buoy {

// Rows that are multiplied with one matrix: those of a pass, or those that an expert gets on average.
enum class RowCount { one, few, many };

RowCount row_count(int64_t n); // few: 2 … 8

// Weights of a product; n_cols: the length of a row.
struct ProductWeights {
    ggml_type type;
    int64_t   n_cols;
    bool      experts;
};

// ggml's kernels with the weights as the file has them, or in the layout it likes best.
enum class Layout { stored, best };

// How many times faster our kernel is than ggml's, as measured; 0 where nobody has.
double measured_speedup(KernelSet set, const ProductWeights & w, RowCount rows, Layout theirs);

// Whether anything was measured with that set; where not, ggml's are the default for everything.
bool is_measured(KernelSet set);

// Whose kernels multiply. A function of the processor and of a table of measurements, not of a trial: the kernels round
// differently, and two runs have to give the same numbers.
class KernelChoice {
public:
    KernelChoice() = default; // ggml's for everything
    // usual: what most passes of the model have
    KernelChoice(Kernels whose, KernelSet set, RowCount usual);

    bool can_be_ours(const ProductWeights & w) const;

    // Whether weights are kept as the file has them, which our kernels and ggml's read, or may get a layout of ggml's.
    bool keeps_stored(const ProductWeights & w) const;

    // For weights that lie in memory as the file has them.
    bool is_ours(const ProductWeights & w, int64_t n_rows) const;

    // "Q4_0: our kernels (AVX-512 VNNI), ggml's for one row"; layout: ggml's, where the weights lie in one of its own
    std::string text(const ProductWeights & w, const char * layout) const;

private:
    bool is_ours(const ProductWeights & w, RowCount rows, Layout theirs = Layout::stored) const;

    Kernels   whose_ = Kernels::ggml;
    KernelSet set_   = KernelSet::none;
    RowCount  usual_ = RowCount::one;
};

} // namespace buoy
