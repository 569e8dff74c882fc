#pragma once

#include "arch/arch.h"
#include "buoy/context.h"
#include "engine/lazy-vocab.h"

namespace buoy {

// A model of an architecture that is ours.
class GgmlModel : public Model {
public:
    GgmlModel(const ModelFile & file, const Arch & arch, const ModelParams & params, const ContextParams & planned);

    const ModelInfo &        info() const override { return loaded_.info(); }
    const Vocab &            vocab() const override { return vocab_.get(); }
    bool                     can_edit() const override { return true; }
    std::unique_ptr<Context> make_context(const ContextParams & params) const override;

    const LoadedModel & loaded() const { return loaded_; }
    const GraphRecipe & recipe() const { return recipe_; }
    const LogCallback & log() const { return log_; }

private:
    LoadedModel loaded_;
    GraphRecipe recipe_;
    LogCallback log_;
    LazyVocab   vocab_;
};

} // namespace buoy
