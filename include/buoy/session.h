#pragma once

#include "buoy/generate.h"

#include <vector>

namespace buoy {

// One sequence of a context, such as a conversation. Knows which of its tokens have exact keys and values in the context's store, so that
// a prompt that begins with them computes the rest only: autoregressive and block-causal models. Nobody else may use that sequence
// meanwhile.
class Session {
public:
    // Guidance takes the sequence behind it as well.
    explicit Session(Context & context, int32_t sequence = 0) : context_(context), sequence_(sequence) {}

    // As buoy::generate() does it. A generation that is observed (on_forward) computes everything, and leaves nothing for the next one.
    // One that fails also leaves nothing, unless it was refused before it began; the next one is not harmed by it.
    Generation generate(const std::vector<int32_t> & prompt, const GenerateParams & params);

    const std::vector<int32_t> & stored() const { return stored_; }

private:
    Context &            context_;
    int32_t              sequence_;
    std::vector<int32_t> stored_;
};

} // namespace buoy
