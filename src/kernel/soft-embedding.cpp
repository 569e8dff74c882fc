// Rows of logits are few and embeddings many, so a thread walks a stretch of the vocabulary, unpacks a piece of it at a time and adds
// it to all rows. The parts of a row are added up in the order of the vocabulary: the number of threads does not show.

#include "kernel/soft-embedding.h"

#include "kernel/kernels.h"
#include "kernel/summary.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <vector>

namespace buoy {

namespace {

constexpr int64_t n_parts    = 16; // of the vocabulary
constexpr int64_t piece_rows = 64; // embeddings unpacked at a time

const float * row_of(const ggml_tensor & x, int64_t row) {
    return reinterpret_cast<const float *>(static_cast<const char *>(x.data) + x.nb[1] * static_cast<size_t>(row));
}

// Of a row of logits.
struct RowScale {
    float largest; // the largest of them
    float inverse; // 1 / Σ exp((logit − largest) / temperature)
    float
        least; // exponentials that are smaller than this add up to less than half a unit in the last place of that sum
};
constexpr int64_t scale_size = sizeof(RowScale) / sizeof(float);

RowScale scale_of(const float * row, int64_t n, float factor) {
    constexpr int64_t stretch = 1024, n_bins = 256; // by exponent
    float             e[stretch];
    double            sums[n_bins] = {};
    const float       largest      = *std::max_element(row, row + n);
    for (int64_t from = 0; from < n; from += stretch) {
        const int64_t count = std::min(stretch, n - from);
        exponentials(row + from, e, count, factor, largest);
        for (int64_t i = 0; i < count; i++) {
            sums[std::bit_cast<uint32_t>(e[i]) >> 23 & 0xff] += static_cast<double>(e[i]);
        }
    }
    const double sum   = std::accumulate(sums, sums + n_bins, 0.0);
    double       below = 0.0;
    uint32_t     bin   = 0;
    while ((below += sums[bin]) < sum * 0x1.0p-25) {
        bin++;
    }
    return {largest, static_cast<float>(1.0 / sum), std::bit_cast<float>(bin << 23)};
}

void run_scales(ggml_tensor * dst, int ith, int nth, void *) {
    const ggml_tensor & logits = *dst->src[0];
    const float         factor = 1.0f / *static_cast<const float *>(dst->src[1]->data);
    const int64_t       n      = dst->ne[1];
    for (int64_t i = n * ith / nth; i < n * (ith + 1) / nth; i++) {
        static_cast<RowScale *>(dst->data)[i] = scale_of(row_of(logits, i), logits.ne[0], factor);
    }
}

void unpack_row(const ggml_tensor & embed, int64_t id, float * to) {
    const char * row = static_cast<const char *>(embed.data) + embed.nb[1] * static_cast<size_t>(id);
    if (embed.type == GGML_TYPE_F32) {
        std::memcpy(to, row, sizeof(float) * static_cast<size_t>(embed.ne[0]));
    } else {
        ggml_get_type_traits(embed.type)->to_float(row, to, embed.ne[0]);
    }
}

void mix_rows(const float * const * rows, const float (*weights)[mixed_rows], int64_t n, float * const * sums,
              int64_t n_cols) {
    if (kernel_table() != nullptr) {
        kernel_table()->mix(rows, weights, n, sums, n_cols);
        return;
    }
    for (int64_t k = 0; k < n; k++) {
        for (int64_t r = 0; r < mixed_rows; r++) {
            for (int64_t i = 0; i < n_cols; i++) {
                sums[r][i] += weights[k][r] * rows[k][i];
            }
        }
    }
}

// One stretch of the vocabulary for all rows of logits: to [E, n].
void add_part(const ggml_tensor & embed, const ggml_tensor & logits, const RowScale * scales, float factor,
              int64_t first, int64_t last, float * to) {
    const int64_t      E = embed.ne[0], n = logits.ne[1];
    std::vector<float> unpacked(static_cast<size_t>(piece_rows * E));
    std::vector<float> unused(static_cast<size_t>(E)); // of rows that only complete a group
    std::fill(to, to + E * n, 0.0f);
    for (int64_t from = first; from < last; from += piece_rows) {
        const int64_t count                   = std::min(piece_rows, last - from);
        bool          is_unpacked[piece_rows] = {};
        for (int64_t row = 0; row < n; row += mixed_rows) {
            float   probs[mixed_rows][piece_rows] = {};
            float * sums[mixed_rows];
            for (int64_t r = 0; r < mixed_rows; r++) {
                sums[r] = row + r < n ? to + E * (row + r) : unused.data();
                if (row + r < n) {
                    exponentials(row_of(logits, row + r) + from, probs[r], count, factor, scales[row + r].largest);
                }
            }
            const float * chosen[piece_rows];
            float         weights[piece_rows][mixed_rows];
            int64_t       n_chosen = 0;
            for (int64_t k = 0; k < count; k++) {
                bool any = false;
                for (int64_t r = 0; r < mixed_rows; r++) {
                    const bool counts    = row + r < n && probs[r][k] >= scales[row + r].least;
                    weights[n_chosen][r] = counts ? probs[r][k] * scales[row + r].inverse : 0.0f;
                    any                  = any || counts;
                }
                if (!any) {
                    continue;
                }
                float * at = unpacked.data() + k * E;
                if (!is_unpacked[k]) {
                    unpack_row(embed, from + k, at);
                    is_unpacked[k] = true;
                }
                chosen[n_chosen++] = at;
            }
            if (n_chosen > 0) {
                mix_rows(chosen, weights, n_chosen, sums, E);
            }
        }
    }
}

void run_parts(ggml_tensor * dst, int ith, int nth, void *) {
    const ggml_tensor &embed = *dst->src[0], &logits = *dst->src[1];
    const float        factor = 1.0f / *static_cast<const float *>(dst->src[3]->data);
    const int64_t      V      = embed.ne[1];
    for (int64_t part = ith; part < n_parts; part += nth) {
        add_part(embed, logits, static_cast<const RowScale *>(dst->src[2]->data), factor, V * part / n_parts,
                 V * (part + 1) / n_parts, static_cast<float *>(dst->data) + dst->ne[0] * dst->ne[1] * part);
    }
}

void run_sum(ggml_tensor * dst, int ith, int nth, void *) {
    const int64_t n     = dst->ne[0] * dst->ne[1];
    const auto *  parts = static_cast<const float *>(dst->src[0]->data);
    auto *        to    = static_cast<float *>(dst->data);
    const int64_t first = n * ith / nth, last = n * (ith + 1) / nth;
    std::copy(parts + first, parts + last, to + first);
    for (int64_t part = 1; part < n_parts; part++) {
        for (int64_t i = first; i < last; i++) {
            to[i] += parts[n * part + i];
        }
    }
}

ggml_tensor * custom(ggml_context * ctx, int64_t ne0, int64_t ne1, int64_t ne2, std::vector<ggml_tensor *> args,
                     ggml_custom_op_t run) {
    return ggml_custom_4d(ctx, GGML_TYPE_F32, ne0, ne1, ne2, 1, args.data(), static_cast<int>(args.size()), run,
                          GGML_N_TASKS_MAX, nullptr);
}

} // namespace

ggml_tensor * mean_embedding(ggml_context * ctx, ggml_tensor * embed, ggml_tensor * logits, ggml_tensor * temperature) {
    const int64_t E = embed->ne[0], n = logits->ne[1];
    ggml_tensor * scales = custom(ctx, scale_size, n, 1, {logits, temperature}, run_scales);
    ggml_tensor * parts  = custom(ctx, E, n, n_parts, {embed, logits, scales, temperature}, run_parts);
    return custom(ctx, E, n, 1, {parts}, run_sum);
}

} // namespace buoy
