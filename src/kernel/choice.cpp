#include "kernel/choice.h"

#include "buoy/message.h"
#include "kernel/matmul.h"

#include <algorithm>
#include <cctype>
#include <span>

namespace buoy {

namespace {

// ggml's time over ours, with weights as stored and in the layout that ggml likes best.
struct Speedup {
    double stored, best;
};

struct Speedups {
    Speedup one, few, many; // rows
};

struct Measured {
    ggml_type type;
    Speedups  dense, experts;
};

// Made by scripts/bench-kernels.sh -t 1 --choices on an AMD EPYC (Zen 4): the least of 1, of 2 and 8, of 32 and 128 rows, with a dense
// model of E=2048 FF=6144 and one with 32 experts, of which 4 are used, of E=1024 FX=512.
// clang-format off
constexpr Measured measured_vnni[] = {
    {GGML_TYPE_Q4_0,   {{1.63, 0.88}, {2.20, 1.29}, {3.01, 2.04}}, {{1.98, 1.24}, {3.40, 2.20}, {4.51, 3.26}}},
    {GGML_TYPE_Q4_1,   {{2.21, 2.12}, {2.75, 2.74}, {6.33, 6.31}}, {{1.57, 1.55}, {4.52, 4.53}, {5.44, 5.32}}},
    {GGML_TYPE_Q5_0,   {{1.25, 1.24}, {1.86, 1.87}, {2.97, 3.22}}, {{1.18, 1.21}, {3.60, 3.60}, {4.50, 4.56}}},
    {GGML_TYPE_Q5_1,   {{1.57, 1.49}, {2.30, 2.29}, {6.30, 6.42}}, {{1.15, 1.13}, {4.46, 4.50}, {5.74, 5.87}}},
    {GGML_TYPE_Q8_0,   {{1.40, 1.49}, {2.10, 2.03}, {2.61, 2.56}}, {{1.09, 1.07}, {2.65, 2.59}, {3.34, 3.68}}},
    {GGML_TYPE_Q4_K,   {{0.72, 0.55}, {1.57, 1.16}, {3.73, 1.93}}, {{1.01, 0.78}, {3.07, 1.91}, {3.74, 2.39}}},
    {GGML_TYPE_Q5_K,   {{0.81, 0.83}, {1.70, 1.69}, {5.09, 5.06}}, {{1.15, 1.14}, {4.01, 3.98}, {5.09, 5.74}}},
    {GGML_TYPE_Q6_K,   {{0.97, 0.60}, {1.16, 1.15}, {3.16, 3.12}}, {{0.72, 0.72}, {2.60, 1.94}, {3.33, 3.38}}},
    {GGML_TYPE_Q2_K,   {{0.46, 0.43}, {0.97, 0.77}, {2.29, 2.17}}, {{0.57, 0.48}, {2.07, 1.75}, {2.46, 2.03}}},
    {GGML_TYPE_Q3_K,   {{0.67, 0.67}, {1.79, 1.78}, {4.43, 4.44}}, {{1.12, 1.13}, {3.62, 3.61}, {4.03, 4.10}}},
    {GGML_TYPE_IQ4_NL, {{1.63, 0.85}, {2.18, 1.34}, {3.21, 2.09}}, {{1.55, 1.18}, {3.62, 2.14}, {4.47, 2.55}}},
    {GGML_TYPE_IQ4_XS, {{0.99, 1.01}, {1.89, 1.81}, {1.60, 1.58}}, {{1.21, 1.25}, {2.19, 2.28}, {1.98, 1.92}}},
    {GGML_TYPE_MXFP4,  {{1.12, 0.83}, {2.13, 1.49}, {6.13, 2.11}}, {{1.19, 1.28}, {4.31, 2.44}, {5.43, 3.01}}},
};

// The same with our loops for AVX2; ggml's kernels used AVX-512, so where ours are faster here, they are without it.
constexpr Measured measured_avx2[] = {
    {GGML_TYPE_Q4_0,   {{1.81, 0.94}, {1.97, 1.17}, {2.53, 1.72}}, {{1.50, 0.99}, {3.14, 1.98}, {3.60, 2.42}}},
    {GGML_TYPE_Q4_1,   {{2.13, 2.00}, {2.47, 2.51}, {5.38, 5.43}}, {{1.56, 1.60}, {4.10, 4.08}, {4.70, 4.67}}},
    {GGML_TYPE_Q5_0,   {{1.27, 1.24}, {1.79, 1.74}, {2.45, 2.52}}, {{1.20, 1.21}, {3.26, 3.23}, {3.73, 3.73}}},
    {GGML_TYPE_Q5_1,   {{1.20, 1.30}, {2.20, 2.11}, {5.15, 5.41}}, {{1.10, 1.10}, {3.66, 3.68}, {4.87, 4.89}}},
    {GGML_TYPE_Q8_0,   {{1.23, 1.23}, {1.07, 1.07}, {1.03, 1.02}}, {{0.84, 0.80}, {1.49, 1.47}, {1.60, 1.58}}},
    {GGML_TYPE_Q4_K,   {{0.94, 0.71}, {1.55, 1.16}, {3.10, 1.62}}, {{1.02, 0.80}, {3.05, 1.93}, {3.34, 2.14}}},
    {GGML_TYPE_Q5_K,   {{0.79, 0.78}, {1.55, 1.60}, {4.22, 4.14}}, {{1.08, 1.09}, {3.59, 3.60}, {4.25, 4.23}}},
    {GGML_TYPE_Q6_K,   {{0.60, 0.59}, {1.04, 1.05}, {2.57, 2.57}}, {{0.72, 0.72}, {2.29, 2.26}, {2.77, 2.77}}},
    {GGML_TYPE_Q2_K,   {{0.48, 0.47}, {0.83, 0.75}, {1.78, 1.75}}, {{0.60, 0.52}, {1.81, 1.49}, {1.99, 1.71}}},
    {GGML_TYPE_Q3_K,   {{0.87, 0.88}, {1.50, 1.54}, {3.45, 3.47}}, {{1.05, 1.06}, {3.07, 3.04}, {3.56, 3.64}}},
    {GGML_TYPE_IQ4_NL, {{1.25, 0.66}, {1.23, 0.75}, {1.26, 0.85}}, {{1.16, 0.68}, {1.89, 1.12}, {2.04, 1.24}}},
    {GGML_TYPE_IQ4_XS, {{0.83, 0.82}, {1.00, 1.01}, {0.63, 0.63}}, {{0.94, 0.94}, {1.21, 1.21}, {0.85, 0.85}}},
    {GGML_TYPE_MXFP4,  {{1.10, 0.83}, {2.03, 1.46}, {5.38, 1.74}}, {{1.38, 0.86}, {3.87, 2.19}, {4.82, 2.70}}},
};
// clang-format on

// A set that no machine of ours has runs the loops of another one with fewer instructions.
std::span<const Measured> measured_with(KernelSet set) {
    switch (set) {
        case KernelSet::vnni:
        case KernelSet::amx: return measured_vnni;
        case KernelSet::avx2:
        case KernelSet::avxvnni: return measured_avx2;
        default: return {};
    }
}

// Types that ggml multiplies with matrix units, unless they are experts'. On an Intel Xeon, for Q4_0, Q8_0 and Q4_K and 8 to 256 rows,
// ours took 0.8 to 1.2 of their time (docs/benchmarks.md): no reason to leave them; the other types were not measured.
bool is_for_amx(ggml_type type) {
    switch (type) {
        case GGML_TYPE_Q4_0:
        case GGML_TYPE_Q4_1:
        case GGML_TYPE_Q8_0:
        case GGML_TYPE_Q4_K:
        case GGML_TYPE_Q5_K:
        case GGML_TYPE_Q6_K:
        case GGML_TYPE_IQ4_XS: return true;
        default: return false;
    }
}

std::string type_name(ggml_type type) {
    std::string name = ggml_type_name(type);
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::toupper(c); });
    return name;
}

} // namespace

RowCount row_count(int64_t n) { return n <= 1 ? RowCount::one : n <= 8 ? RowCount::few : RowCount::many; }

double measured_speedup(KernelSet set, const ProductWeights & w, RowCount rows, Layout theirs) {
    if (set == KernelSet::amx && theirs == Layout::best && is_for_amx(w.type) && !w.experts) {
        return 0.0;
    }
    for (const Measured & entry : measured_with(set)) {
        if (entry.type == w.type) {
            const Speedups & all = w.experts ? entry.experts : entry.dense;
            const Speedup &  one = rows == RowCount::one ? all.one : rows == RowCount::few ? all.few : all.many;
            return theirs == Layout::stored ? one.stored : one.best;
        }
    }
    return 0.0;
}

bool is_measured(KernelSet set) { return !measured_with(set).empty(); }

KernelChoice::KernelChoice(Kernels whose, KernelSet set, RowCount usual) : whose_(whose), set_(set), usual_(usual) {}

bool KernelChoice::can_be_ours(const ProductWeights & w) const {
    return whose_ != Kernels::ggml && can_mul_packed(w.type, w.n_cols);
}

bool KernelChoice::is_ours(const ProductWeights & w, RowCount rows, Layout theirs) const {
    return can_be_ours(w) && (whose_ == Kernels::ours || measured_speedup(set_, w, rows, theirs) >= 1.0);
}

bool KernelChoice::is_ours(const ProductWeights & w, int64_t n_rows) const { return is_ours(w, row_count(n_rows)); }

bool KernelChoice::keeps_stored(const ProductWeights & w) const { return is_ours(w, usual_, Layout::best); }

std::string KernelChoice::text(const ProductWeights & w, const char * layout) const {
    const std::string name = type_name(w.type) + (w.experts ? " experts" : "");
    if (layout != nullptr) {
        return concat(name, ": ggml's kernels (", layout, ")");
    }
    std::string theirs;
    int         n_theirs = 0;
    for (const auto & [rows, which] : {std::pair(RowCount::one, "one row"), std::pair(RowCount::few, "2 to 8 rows"),
                                       std::pair(RowCount::many, "more rows")}) {
        if (!is_ours(w, rows)) {
            theirs += concat(n_theirs++ > 0 ? " and " : "", which);
        }
    }
    if (n_theirs == 3) {
        return name + ": ggml's kernels";
    }
    return concat(name, ": our kernels (", kernel_set_name(kernel_table()->set), ")",
                  n_theirs > 0 ? ", ggml's for " + theirs : "");
}

} // namespace buoy
