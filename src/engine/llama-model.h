#pragma once

#include "buoy/model.h"
#include "engine/lazy-vocab.h"
#include "text/llama-handles.h"

namespace buoy {

// A model of any architecture that libllama knows.
class LlamaModel : public Model {
public:
    LlamaModel(const ModelFile & file, const ModelParams & params, const ContextParams & planned);

    const ModelInfo &        info() const override { return info_; }
    const Vocab &            vocab() const override { return vocab_.get(); }
    bool                     can_edit() const override { return false; }
    std::unique_ptr<Context> make_context(const ContextParams & params) const override;

    llama_model *       handle() const { return model_.get(); }
    const LogCallback & log() const { return log_; }
    bool                rope_interleaved() const { return rope_interleaved_; } // heads are as NORM-type RoPE wants them
    int32_t             n_rotated() const { return n_rotated_; }               // dimensions of a head

private:
    void load(const GgufFile & file, const ModelParams & params, const ContextParams & planned);
    void read_info(const GgufFile & file);

    std::string   path_;
    LogCallback   log_;
    LlamaModelPtr model_;
    ModelInfo     info_;
    bool          rope_interleaved_ = false;
    int32_t       n_rotated_        = 0;
    LazyVocab     vocab_;
};

} // namespace buoy
