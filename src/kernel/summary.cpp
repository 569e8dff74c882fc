#include "kernel/summary.h"

#include "buoy/context.h"
#include "kernel/kernels.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace buoy {

namespace {

static_assert(sizeof(RowSummary) == 6 * sizeof(int32_t), "a row of the tensor is one summary");

void run(ggml_tensor * dst, int ith, int nth, void *) {
    const ggml_tensor * logits = dst->src[0];
    const int64_t       n      = dst->ne[1];
    for (int64_t i = n * ith / nth; i < n * (ith + 1) / nth; i++) {
        const auto *       row    = static_cast<const char *>(logits->data) + logits->nb[1] * static_cast<size_t>(i);
        const LogitSummary s      = kernel_table()->summarize(reinterpret_cast<const float *>(row), logits->ne[0]);
        const float        margin = logits->ne[0] > 1 ? s.prob - s.prob_second : 1.0f;
        static_cast<RowSummary *>(dst->data)[i] = {s.id, s.second_id, s.prob, margin, s.entropy, s.id};
    }
}

// The exponentials of a row relative to the largest, a stretch at a time: for each, its first column and its values.
template <typename Use> void each_stretch(const float * row, int64_t n, float factor, float largest, const Use & use) {
    constexpr int64_t stretch = 1024;
    float             e[stretch];
    for (int64_t from = 0; from < n; from += stretch) {
        const int64_t count = std::min(stretch, n - from);
        exponentials(row + from, e, count, factor, largest);
        if (!use(from, count, e)) {
            return;
        }
    }
}

int32_t find_drawn(const float * row, int64_t n, float factor, float largest, double wanted) {
    double  sum   = 0.0;
    int64_t found = n - 1;
    each_stretch(row, n, factor, largest, [&](int64_t from, int64_t count, const float * e) {
        for (int64_t i = 0; i < count; i++) {
            sum += static_cast<double>(e[i]);
            if (sum > wanted) {
                found = from + i;
                return false;
            }
        }
        return true;
    });
    return static_cast<int32_t>(found);
}

RowSummary draw_row(const float * row, int64_t n, float temperature, float uniform) {
    int64_t best = 0, second = n > 1 ? 1 : 0;
    for (int64_t i = 1; i < n; i++) {
        if (row[i] > row[best]) {
            second = best;
            best   = i;
        } else if (i > 1 && row[i] > row[second]) {
            second = i;
        }
    }
    // H = ln Z − Σ p·(logit − largest), with Z relative to the largest
    const float factor = 1.0f / temperature;
    double      sum = 0.0, weighted = 0.0;
    each_stretch(row, n, factor, row[best], [&](int64_t from, int64_t count, const float * e) {
        for (int64_t i = 0; i < count; i++) {
            sum += static_cast<double>(e[i]);
            weighted += static_cast<double>(e[i]) * static_cast<double>(row[from + i] - row[best]);
        }
        return true;
    });
    const auto prob = [&](int64_t i) {
        return std::exp((static_cast<double>(row[i]) - static_cast<double>(row[best])) * static_cast<double>(factor)) /
               sum;
    };
    RowSummary out;
    out.id        = static_cast<int32_t>(best);
    out.second_id = static_cast<int32_t>(second);
    out.prob      = static_cast<float>(1.0 / sum);
    out.margin    = n > 1 ? out.prob - static_cast<float>(prob(second)) : 1.0f;
    out.entropy   = static_cast<float>(std::max(0.0, std::log(sum) - weighted * static_cast<double>(factor) / sum));
    out.drawn_id  = find_drawn(row, n, factor, row[best], static_cast<double>(uniform) * sum);
    return out;
}

void run_draw(ggml_tensor * dst, int ith, int nth, void *) {
    const ggml_tensor *logits = dst->src[0], *draws = dst->src[1];
    const int64_t      n = dst->ne[1];
    for (int64_t i = n * ith / nth; i < n * (ith + 1) / nth; i++) {
        const auto *  row  = static_cast<const char *>(logits->data) + logits->nb[1] * static_cast<size_t>(i);
        const float * draw = static_cast<const float *>(draws->data) + 2 * i;
        static_cast<RowSummary *>(dst->data)[i] =
            draw_row(reinterpret_cast<const float *>(row), logits->ne[0], draw[0], draw[1]);
    }
}

ggml_tensor * summaries(ggml_context * ctx, std::vector<ggml_tensor *> args, ggml_custom_op_t run_rows) {
    constexpr int64_t n_fields = sizeof(RowSummary) / sizeof(int32_t);
    return ggml_custom_4d(ctx, GGML_TYPE_I32, n_fields, args[0]->ne[1], 1, 1, args.data(),
                          static_cast<int>(args.size()), run_rows, GGML_N_TASKS_MAX, nullptr);
}

} // namespace

ggml_tensor * summarize_rows(ggml_context * ctx, ggml_tensor * logits) { return summaries(ctx, {logits}, run); }

ggml_tensor * draw_rows(ggml_context * ctx, ggml_tensor * logits, ggml_tensor * draws) {
    return summaries(ctx, {logits, draws}, run_draw);
}

void exponentials(const float * x, float * to, int64_t n, float factor, float offset) {
    const KernelTable * table = kernel_table();
    if (table != nullptr) {
        table->exponentials(x, to, n, factor, offset);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        to[i] = std::exp(factor * (x[i] - offset));
    }
}

} // namespace buoy
