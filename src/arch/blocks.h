#pragma once

#include "arch/arch.h"

namespace buoy {

// FFNs that several architectures share. x [E, n] -> what the FFN adds to it.
inline ggml_tensor * swiglu_ffn(Graph & g, const LayerWeights & w, ggml_tensor * x) {
    ggml_tensor * h = g.rms_norm(x, w.ffn_norm);        // [E, n]
    return g.linear(w.down, g.swiglu(w.gate, w.up, h)); // F in between
}

// A mixture of experts, with those that every token goes through, if any; or an ordinary FFN, where the layer has one.
inline ggml_tensor * expert_ffn(Graph & g, const LayerWeights & w, ggml_tensor * x) {
    if (w.experts.router == nullptr) {
        return swiglu_ffn(g, w, x);
    }
    ggml_tensor * h = g.rms_norm(x, w.ffn_norm); // [E, n]
    ggml_tensor * y = g.experts(w.experts, h);   // [E, n]
    return w.gate.w == nullptr ? y : g.add(y, g.linear(w.down, g.swiglu(w.gate, w.up, h)));
}

} // namespace buoy
