#pragma once

#include "decode/plan.h"
#include "observe/record-choice.h"

#include <cstdint>
#include <string>

namespace buoy {

// What a recording's size depends on besides what is kept.
struct RecordedShape {
    const ModelInfo & info;
    const StepPlan &  plan;
    uint64_t          meta_size; // of meta.json, at most
};

// An upper bound in bytes; exact, but for meta.json, where the plan is carried out to its end.
uint64_t predict_size(const RecordChoice & choice, const RecordedShape & shape);

// The mildest change that brings a recording under the limit, as settings: "`record.reduce` heads would need 1.2 GiB".
std::string advise_smaller(const RecordChoice & choice, const RecordedShape & shape, uint64_t limit);

} // namespace buoy
