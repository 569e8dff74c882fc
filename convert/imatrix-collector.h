#pragma once

#include "buoy/context.h"
#include "imatrix.h"

namespace buoy {

// Adds up the squares of what is multiplied with each weight, as llama.cpp's imatrix does.
class ImatrixCollector {
public:
    void add(const ProductEvent & event);

    // Infinite sums would spoil every quantisation made with them.
    void check(const std::string & model_path) const;

    const std::unordered_map<std::string, ImatrixSums> & sums() const { return sums_; }

private:
    std::unordered_map<std::string, ImatrixSums> sums_;
};

} // namespace buoy
