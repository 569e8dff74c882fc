#pragma once

#include "buoy/model.h"

#include <ggml-backend.h>

#include <vector>

namespace buoy {

// Which device each layer lives on. Layer -1 is the embedding, layer L the LM head.
class Placement {
public:
    Placement(const ModelParams & params, int32_t n_layer);

    ggml_backend_dev_t device(int32_t il) const;

    // Devices in use, GPUs first, the CPU always last.
    const std::vector<ggml_backend_dev_t> & devices() const { return devices_; }

    bool cpu_only() const { return devices_.size() == 1; }

    // Buffer types to try for a weight of that layer, best first: the device's own, then the CPU's repacked layouts
    // (when asked for), then plain host memory.
    std::vector<std::pair<ggml_backend_dev_t, ggml_backend_buffer_type_t>> buffer_types(int32_t il, bool repack) const;

private:
    std::vector<ggml_backend_dev_t> devices_;
    std::vector<ggml_backend_dev_t> layers_; // [L + 1]
    ggml_backend_dev_t              cpu_ = nullptr;
};

} // namespace buoy
