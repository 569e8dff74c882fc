#pragma once

#include <ggml.h>

namespace buoy {

// logits [V, n] -> the bytes of n RowSummary, i32 [6, n].
ggml_tensor * summarize_rows(ggml_context * ctx, ggml_tensor * logits);

// The same of logits that are divided by a temperature, with a token drawn: draws [2, n] has temperature and number of each row. The
// token is the first at which the sum of probabilities is above the number; sums are in double precision.
ggml_tensor * draw_rows(ggml_context * ctx, ggml_tensor * logits, ggml_tensor * draws);

// to[i] = exp(factor·(x[i] − offset))
void exponentials(const float * x, float * to, int64_t n, float factor, float offset = 0.0f);

} // namespace buoy
