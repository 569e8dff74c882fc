#include "kernel/summary.h"

#include "buoy/context.h"
#include "kernel/kernels.h"

#include <cmath>

namespace buoy {

namespace {

static_assert(sizeof(RowSummary) == 5 * sizeof(int32_t), "a row of the tensor is one summary");

void run(ggml_tensor * dst, int ith, int nth, void *) {
    const ggml_tensor * logits = dst->src[0];
    const int64_t       n      = dst->ne[1];
    for (int64_t i = n * ith / nth; i < n * (ith + 1) / nth; i++) {
        const auto *       row    = static_cast<const char *>(logits->data) + logits->nb[1] * static_cast<size_t>(i);
        const LogitSummary s      = kernel_table()->summarize(reinterpret_cast<const float *>(row), logits->ne[0]);
        const float        margin = logits->ne[0] > 1 ? s.prob - s.prob_second : 1.0f;
        static_cast<RowSummary *>(dst->data)[i] = {s.id, s.second_id, s.prob, margin, s.entropy};
    }
}

} // namespace

ggml_tensor * summarize_rows(ggml_context * ctx, ggml_tensor * logits) {
    constexpr int64_t n_fields = sizeof(RowSummary) / sizeof(int32_t);
    return ggml_custom_4d(ctx, GGML_TYPE_I32, n_fields, logits->ne[1], 1, 1, &logits, 1, run, GGML_N_TASKS_MAX,
                          nullptr);
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
