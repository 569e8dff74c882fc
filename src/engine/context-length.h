#pragma once

#include "buoy/engine.h"
#include "buoy/error.h"

#include <algorithm>

namespace buoy {

// What EngineParams::n_ctx means for a model trained at that length.
inline int32_t choose_n_ctx(const EngineParams & params, int32_t n_ctx_train) {
    constexpr int32_t default_max = 4096;
    if (params.n_ctx < -1) {
        fail("the context length is ", params.n_ctx, ", expected -1 (the model's), 0 (that, at most ", default_max,
             ") or more");
    }
    return params.n_ctx > 0    ? params.n_ctx
           : params.n_ctx == 0 ? std::clamp(n_ctx_train, 1, default_max)
                               : std::max(n_ctx_train, 1);
}

} // namespace buoy
