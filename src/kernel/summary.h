#pragma once

#include <ggml.h>

namespace buoy {

// logits [V, n] -> the bytes of n RowSummary, i32 [5, n].
ggml_tensor * summarize_rows(ggml_context * ctx, ggml_tensor * logits);

// to[i] = exp(factor·(x[i] − offset))
void exponentials(const float * x, float * to, int64_t n, float factor, float offset = 0.0f);

} // namespace buoy
