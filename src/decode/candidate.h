#pragma once

#include <cstdint>

namespace buoy {

// A masked position and what the model would write there.
struct Candidate {
    int32_t position = 0;
    int32_t id       = 0;
    float   prob     = 0; // of id
    float   margin   = 0; // between the two best tokens
    float   entropy  = 0; // in nats
    float   score    = 0; // larger is written earlier; set by the algorithm
};

} // namespace buoy
