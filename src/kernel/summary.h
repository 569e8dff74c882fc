#pragma once

#include <ggml.h>

namespace buoy {

// logits [V, n] -> the bytes of n RowSummary, i32 [5, n].
ggml_tensor * summarize_rows(ggml_context * ctx, ggml_tensor * logits);

} // namespace buoy
