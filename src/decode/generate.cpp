#include "buoy/generate.h"

#include "buoy/session.h"
#include "decode/decoder.h"

namespace buoy {

int32_t sequence_count(const GenerateParams & params) { return params.cfg_scale > 0.0f ? 2 : 1; }

Generation Session::generate(const std::vector<int32_t> & prompt, const GenerateParams & params) {
    const bool reusable = !params.on_forward; // who looks on may also have changed what is stored
    Decoder    decoder(context_, {sequence_, sequence_ + 1}, prompt, params,
                    reusable ? std::span<const int32_t>(stored_) : std::span<const int32_t>());
    stored_.clear(); // until it is known to be there
    decoder.begin(context_);
    std::vector<ForwardRequest> batch;
    while (decoder.next(batch)) {
        decoder.take(context_.forward(batch)[0]);
        batch.clear();
    }
    if (reusable) {
        stored_ = decoder.stored();
    }
    return decoder.finish();
}

Generation generate(Context & context, const std::vector<int32_t> & prompt, const GenerateParams & params) {
    return Session(context).generate(prompt, params);
}

} // namespace buoy
