#pragma once

#include "analysis/received.h"
#include "analysis/study.h"

namespace buoy::analysis {

// q and k of one layer, a pass or what was put together of several.
struct QkPass {
    struct Part {
        Array               q; // [H, Q, D]
        Array               k; // [Hkv, K, D]
        std::vector<size_t> rows;
        int32_t             step = 0;
    };

    std::vector<Part>    parts;
    std::vector<int32_t> heads;   // of q, as the model numbers them
    std::vector<size_t>  k_heads; // the head of k that each of them reads
    size_t               n_rows = 0, n_keys = 0;
};

// q · k, cos of their angle and the product of their norms, [n_rows, n_keys]; NaN where the model does not attend.
struct QkMaps {
    size_t               n_rows = 0, n_keys = 0;
    std::vector<int32_t> positions; // of the rows
    std::vector<double>  qk, cos, norms;
};

// Anchor columns against the others, means over rows: the difference of q · k, and what of it comes from the angle, the norms, and
// neither alone. With N and C the means of ‖q‖‖k‖ and cos θ over the anchors (a) and the others (o) of a row:
//   angle = (C_a - C_o)(N_a + N_o)/2,   norm = (N_a - N_o)(C_a + C_o)/2,   rest = qk - angle - norm.
struct QkDifference {
    double qk = 0, angle = 0, norm = 0, rest = 0;
    double cos = 0, norms = 0; // C_a - C_o, N_a - N_o
};

// The head of k, of n_kv, that each of these heads reads.
std::vector<size_t> key_heads(const Recording & recording, const std::vector<int32_t> & heads, size_t n_kv);

QkPass read_qk(const Recording & recording, const std::vector<StepRows> & rows, int32_t layer);

QkMaps head_maps(const Recording & recording, const QkPass & pass, int32_t head);
QkMaps mean_maps(const Recording & recording, const QkPass & pass); // of q and the k it reads, averaged over heads

QkDifference difference_of(const QkMaps & maps, const std::vector<size_t> & anchors);
QkDifference mean_difference(const Recording & recording, const QkPass & pass, const std::vector<size_t> & anchors);

Json rows_json(const QkMaps & maps, const std::vector<double> & values);

} // namespace buoy::analysis
