#pragma once

#include "base/fail.h"
#include "buoy/context.h"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace buoy {

// What EngineParams::n_ctx means for a model trained at that length.
// Blocks stay whole: block_length > 1 rounds up.
inline int32_t choose_n_ctx(const ContextParams & params, int32_t n_ctx_train, int32_t block_length = 1) {
    constexpr int32_t default_max = 4096;
    if (params.n_ctx < -1) {
        fail("the context length is ", params.n_ctx, ", expected -1 (the model's), 0 (that, at most ", default_max,
             ") or more");
    }
    const int64_t n_ctx = params.n_ctx > 0    ? params.n_ctx
                          : params.n_ctx == 0 ? std::clamp(n_ctx_train, 1, default_max)
                                              : std::max(n_ctx_train, 1);
    const int64_t B     = std::max(block_length, 1);
    return static_cast<int32_t>(std::min<int64_t>((n_ctx + B - 1) / B * B, std::numeric_limits<int32_t>::max()));
}

} // namespace buoy
