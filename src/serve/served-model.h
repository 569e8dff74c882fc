#pragma once

#include "buoy/serve.h"

namespace buoy::serve {

// What requests are for.
struct ServedModel {
    const Model &     model;
    const ModelInfo & info;
    const Vocab &     vocab;
    std::string       name;     // that clients know it by
    GenerateParams    defaults; // what a request leaves open
    ContextParams     context;  // n_ctx resolved
    Limits            limits;
    bool              random_seed = true; // for a request that names none
};

} // namespace buoy::serve
