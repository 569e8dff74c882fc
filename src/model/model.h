#pragma once

#include "arch/arch.h"
#include "buoy/context.h"
#include "model/loader.h"

#include <memory>

namespace buoy {

// A loaded model of an architecture that is ours: numbers, weights, and where they are. Immutable.
class Model {
public:
    Model(const GgufFile & file, const Arch & arch, const ModelParams & params, const MemoryUse & use = {});

    const ModelInfo & info() const { return info_; }
    const HParams &   hparams() const { return hparams_; }
    const Arch &      arch() const { return arch_; }
    const Weights &   weights() const { return weights_; }
    const Placement & placement() const { return placement_; }

    // Where a layer's attention is computed: with the weights of its keys.
    ggml_backend_dev_t attention_device(int32_t il) const;

    std::vector<PlacedWeight> placed_weights() const;

    bool use_kernels() const { return use_kernels_; } // ours, where they can do it
    bool use_packed() const { return use_packed_; }   // kernel/matmul.h, for the weights it can read

private:
    ggml_backend_dev_t device_of(const ggml_tensor * weight) const;
    std::string        placement_text() const;

    const Arch & arch_;
    HParams      hparams_;
    Placement    placement_;
    ModelInfo    info_;
    bool         use_kernels_ = false;
    bool         use_packed_  = false;
    Weights      weights_;
    WeightMemory memory_;
};

} // namespace buoy
