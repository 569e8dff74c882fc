#include "buoy/generate.h"

#include "decode/decoder.h"

namespace buoy {

int32_t sequence_count(const GenerateParams & params) { return params.cfg_scale > 0.0f ? 2 : 1; }

Generation generate(Context & context, const std::vector<int32_t> & prompt, const GenerateParams & params) {
    Decoder decoder(context.info(), context.n_ctx(), prompt, params, params.stored);
    for (int32_t sequence = 0; sequence < sequence_count(params); sequence++) {
        context.kv_truncate(sequence, decoder.n_stored());
    }
    std::vector<ForwardRequest> batch;
    while (decoder.next(batch)) {
        decoder.take(context.forward(batch)[0]);
        batch.clear();
    }
    return decoder.finish();
}

} // namespace buoy
