#include "decode/step-count.h"

#include "decode/step-plan.h"

namespace buoy {

int64_t step_count_max(const ModelInfo & info, const std::vector<int32_t> & prompt, const GenerateParams & params) {
    return static_cast<int64_t>(plan_steps(info, prompt, params).steps.size());
}

} // namespace buoy
