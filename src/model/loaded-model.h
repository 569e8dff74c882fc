#pragma once

#include "kernel/choice.h"
#include "model/loader.h"

#include <string>
#include <vector>

namespace buoy {

// The part of an architecture that is about its file: what it assumes, numbers and weights of its own.
struct ModelRecipe {
    const char * name   = nullptr; // general.architecture
    ArchTraits   traits = {};

    // numbers beyond those every decoder has; may be null
    void (*read)(const GgufFile & file, HParams & hp) = nullptr;

    void (*layer)(WeightSource & source, const HParams & hp, int32_t il, LayerWeights & layer) = nullptr;

    // weights outside of layers, beside embedding and head; may be null
    void (*others)(WeightSource & source, const HParams & hp, Weights & weights) = nullptr;
};

// Numbers and weights of a model, and where they are. Immutable.
class LoadedModel {
public:
    LoadedModel(const GgufFile & file, const ModelRecipe & recipe, const ModelParams & params,
                const MemoryUse & use = {});

    const ModelInfo & info() const { return info_; }
    const HParams &   hparams() const { return hparams_; }
    const Weights &   weights() const { return weights_; }
    const Placement & placement() const { return placement_; }

    // Where a layer's attention is computed: with the weights of its keys.
    ggml_backend_dev_t attention_device(int32_t il) const;

    std::vector<PlacedWeight> placed_weights() const;

    bool                 use_kernels() const { return use_kernels_; } // of ours, for attention and summaries
    const KernelChoice & products() const { return products_; }       // whose multiply

private:
    ggml_backend_dev_t device_of(const ggml_tensor * weight) const;
    std::string        placement_text() const;

    HParams      hparams_;
    Placement    placement_;
    ModelInfo    info_;
    bool         use_kernels_ = false;
    KernelChoice products_;
    Weights      weights_;
    WeightMemory memory_;
};

} // namespace buoy
