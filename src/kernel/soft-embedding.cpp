// Rows of logits are few and embeddings many, so a thread walks a stretch of the vocabulary, unpacks a piece of it at a time and adds
// it to all rows. The parts of a row are added up in the order of the vocabulary: the number of threads does not show.

#include "kernel/soft-embedding.h"

#include "kernel/kernels.h"
#include "kernel/summary.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace buoy {

namespace {

constexpr int64_t n_parts     = 16; // of the vocabulary
constexpr int64_t piece_rows  = 64; // embeddings unpacked at a time
constexpr int64_t rows_beside = 4;  // rows of logits that are added to together

const float * row_of(const ggml_tensor & x, int64_t row) {
    return reinterpret_cast<const float *>(static_cast<const char *>(x.data) + x.nb[1] * static_cast<size_t>(row));
}

// Of each row of logits: the largest, and 1 / Σ exp((logit − largest) / temperature).
void run_scales(ggml_tensor * dst, int ith, int nth, void *) {
    const ggml_tensor & logits = *dst->src[0];
    const float         factor = 1.0f / *static_cast<const float *>(dst->src[1]->data);
    const int64_t       n = dst->ne[1], V = logits.ne[0];
    constexpr int64_t   stretch = 1024;
    float               e[stretch];
    for (int64_t i = n * ith / nth; i < n * (ith + 1) / nth; i++) {
        const float * row     = row_of(logits, i);
        const float   largest = *std::max_element(row, row + V);
        double        sum     = 0.0;
        for (int64_t from = 0; from < V; from += stretch) {
            const int64_t count = std::min(stretch, V - from);
            exponentials(row + from, e, count, factor, largest);
            for (int64_t j = 0; j < count; j++) {
                sum += static_cast<double>(e[j]);
            }
        }
        float * to = static_cast<float *>(dst->data) + 2 * i;
        to[0]      = largest;
        to[1]      = static_cast<float>(1.0 / sum);
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

// to[r] += Σ weights[k][r] · rows[k] over the columns of a row
void add_rows(const float * const * rows, const float (*weights)[rows_beside], int64_t n, float * const * to,
              int64_t n_cols) {
    constexpr int64_t strip = 64;
    for (int64_t from = 0; from < n_cols; from += strip) {
        const int64_t count = std::min(strip, n_cols - from);
        float         sums[rows_beside][strip];
        for (int64_t r = 0; r < rows_beside; r++) {
            std::copy_n(to[r] + from, count, sums[r]);
        }
        for (int64_t k = 0; k < n; k++) {
            const float * x = rows[k] + from;
            for (int64_t r = 0; r < rows_beside; r++) {
                for (int64_t i = 0; i < count; i++) {
                    sums[r][i] += weights[k][r] * x[i];
                }
            }
        }
        for (int64_t r = 0; r < rows_beside; r++) {
            std::copy_n(sums[r], count, to[r] + from);
        }
    }
}

// One stretch of the vocabulary for all rows of logits: to [E, n].
void add_part(const ggml_tensor & embed, const ggml_tensor & logits, const float * scales, float factor, int64_t first,
              int64_t last, float * to) {
    const int64_t      E = embed.ne[0], n = logits.ne[1];
    const auto         least = static_cast<float>(std::ldexp(1.0, -25)) / static_cast<float>(embed.ne[1]);
    std::vector<float> unpacked(static_cast<size_t>(piece_rows * E));
    std::vector<float> unused(static_cast<size_t>(E)); // of rows that only complete a group
    std::fill(to, to + E * n, 0.0f);
    for (int64_t from = first; from < last; from += piece_rows) {
        const int64_t count                   = std::min(piece_rows, last - from);
        bool          is_unpacked[piece_rows] = {};
        for (int64_t row = 0; row < n; row += rows_beside) {
            float   probs[rows_beside][piece_rows] = {};
            float * sums[rows_beside];
            for (int64_t r = 0; r < rows_beside; r++) {
                sums[r] = row + r < n ? to + E * (row + r) : unused.data();
                if (row + r < n) {
                    exponentials(row_of(logits, row + r) + from, probs[r], count, factor, scales[2 * (row + r)]);
                }
            }
            const float * chosen[piece_rows];
            float         weights[piece_rows][rows_beside];
            int64_t       n_chosen = 0;
            for (int64_t k = 0; k < count; k++) {
                bool any = false;
                for (int64_t r = 0; r < rows_beside; r++) {
                    const float p        = row + r < n ? probs[r][k] * scales[2 * (row + r) + 1] : 0.0f;
                    weights[n_chosen][r] = p > least ? p : 0.0f;
                    any                  = any || p > least;
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
                add_rows(chosen, weights, n_chosen, sums, E);
            }
        }
    }
}

void run_parts(ggml_tensor * dst, int ith, int nth, void *) {
    const ggml_tensor &embed = *dst->src[0], &logits = *dst->src[1];
    const float        factor = 1.0f / *static_cast<const float *>(dst->src[3]->data);
    const int64_t      V      = embed.ne[1];
    for (int64_t part = ith; part < n_parts; part += nth) {
        add_part(embed, logits, static_cast<const float *>(dst->src[2]->data), factor, V * part / n_parts,
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
    ggml_tensor * scales = custom(ctx, 2, n, 1, {logits, temperature}, run_scales);
    ggml_tensor * parts  = custom(ctx, E, n, n_parts, {embed, logits, scales, temperature}, run_parts);
    return custom(ctx, E, n, 1, {parts}, run_sum);
}

} // namespace buoy
