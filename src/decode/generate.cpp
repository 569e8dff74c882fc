#include "buoy/generate.h"

#include "buoy/error.h"
#include "decode/decode.h"

namespace buoy {

Generation generate(Engine & engine, const std::vector<int32_t> & prompt, const GenerateParams & params) {
    const ModelInfo & info = engine.info();
    if (params.n_predict < 1) {
        fail("the number of tokens to generate is ", params.n_predict, ", expected 1 or more");
    }
    if (params.steps < 0) {
        fail("the number of diffusion steps is ", params.steps, ", expected 1 or more");
    }
    if (params.block_length < 0) {
        fail("the diffusion block length is ", params.block_length, ", expected 1 or more");
    }
    const int64_t n_total = static_cast<int64_t>(prompt.size()) + params.n_predict;
    if (n_total > engine.n_ctx()) {
        fail("prompt (", prompt.size(), ") and answer (", params.n_predict, ") need ", n_total,
             " positions, the context has ", engine.n_ctx(), "; a larger -c or a smaller -n would fit");
    }
    if (info.traits.is_diffusion()) {
        return generate_diffusion(engine, prompt, params);
    }
    if (prompt.empty()) {
        fail("the prompt is empty, and an autoregressive model needs at least one token to continue");
    }
    return generate_autoregressive(engine, prompt, params);
}

} // namespace buoy
