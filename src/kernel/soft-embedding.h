#pragma once

#include <ggml.h>

namespace buoy {

// The mean of all embeddings, weighted by softmax(logits / temperature): embed [E, V] of any type in host memory, logits [V, n],
// temperature [1] -> [E, n]. What all the tokens left out of a row could add to it is below the rounding of its weights' sum.
ggml_tensor * mean_embedding(ggml_context * ctx, ggml_tensor * embed, ggml_tensor * logits, ggml_tensor * temperature);

} // namespace buoy
