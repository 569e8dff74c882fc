#pragma once

#include "imatrix.h"

#include <ggml.h>

namespace buoy {

// Adds up the squares of what is multiplied with each weight, as llama.cpp's imatrix does.
class ImatrixCollector {
public:
    // Products of a weight and activations, ordinary or by expert.
    static bool wants(const ggml_tensor * node);

    void add(const ggml_tensor * node);

    // Infinite sums would spoil every quantisation made with them.
    void check(const std::string & model_path) const;

    const std::unordered_map<std::string, ImatrixSums> & sums() const { return sums_; }

private:
    std::unordered_map<std::string, ImatrixSums> sums_;
    std::vector<char>                            activations_;
    std::vector<char>                            ids_;
};

} // namespace buoy
