#pragma once

#include "buoy/model.h"
#include "model/fit.h"

#include <ggml-backend.h>

#include <map>
#include <string>
#include <vector>

namespace buoy {

class GgufFile;

// Which device each weight is to live on. Layer -1 is the embedding, layer L the LM head.
class Placement {
public:
    using BufferTypes = std::vector<std::pair<ggml_backend_dev_t, ggml_backend_buffer_type_t>>;

    Placement(const ModelParams & params, const GgufFile & file, int32_t n_layer, const MemoryUse & use);

    ggml_backend_dev_t device(int32_t il) const { return il < 0 ? embed_ : layers_.at(static_cast<size_t>(il)); }
    ggml_backend_dev_t cpu() const { return devices_.back(); }

    // Weights that are elsewhere than the rest of their layer, by name.
    const std::map<std::string, ggml_backend_dev_t> & exceptions() const { return exceptions_; }

    // Devices in use, GPUs first, the CPU always last.
    const std::vector<ggml_backend_dev_t> & devices() const { return devices_; }

    bool    cpu_only() const { return devices_.size() == 1; }
    int32_t n_offloaded() const { return n_offloaded_; } // layers on GPUs, the head counted as one

    // Buffer types to try for a weight, best first: its device's own, then the CPU's repacked layouts (when asked for), then
    // plain host memory.
    BufferTypes buffer_types(const std::string & name, int32_t il, bool repack) const;
    bool        has_layout(const char * name) const; // among the CPU's repacked ones

private:
    void read_overrides(const ModelParams & params, const GgufFile & file);
    void place_layers(const ModelParams & params, const GgufFile & file, const MemoryUse & use);

    std::vector<ggml_backend_dev_t>           devices_;
    std::vector<ggml_backend_dev_t>           layers_; // [L + 1]
    ggml_backend_dev_t                        embed_ = nullptr;
    std::map<std::string, ggml_backend_dev_t> exceptions_;
    int32_t                                   n_offloaded_ = 0;
};

} // namespace buoy
