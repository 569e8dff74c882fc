#pragma once

#include "buoy/context.h"
#include "model/fit.h"

#include <string>

namespace buoy {

class GgufFile;

// What a model of any architecture takes beside its weights, from the keys of its file: estimates, on the large side.
MemoryUse estimate_memory(const GgufFile & file, const std::string & arch, const ContextParams & params);

} // namespace buoy
