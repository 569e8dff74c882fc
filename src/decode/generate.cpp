#include "buoy/generate.h"

#include "buoy/message.h"
#include "buoy/session.h"
#include "decode/decode-batch.h"

namespace buoy {

int32_t sequence_count(const GenerateParams & params) { return params.cfg_scale > 0.0f ? 2 : 1; }

namespace {

// first: of the sequences that may be used.
void check_sequences(const Context & context, const GenerateParams & params, int32_t first) {
    const int32_t n = context.params().n_sequences - first;
    if (params.cfg_scale > 0.0f && n < sequence_count(params)) {
        fail("classifier-free guidance needs two sequences, the context has ", n);
    }
}

} // namespace

Generation Session::generate(const std::vector<int32_t> & prompt, const GenerateParams & params) {
    const bool reusable = !params.on_forward; // who looks on may also have changed what is stored
    Decoder    decoder(context_, {sequence_, sequence_ + 1}, prompt, params,
                    reusable ? std::span<const int32_t>(stored_) : std::span<const int32_t>());
    check_sequences(context_, params, sequence_);
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

namespace {

void check_batch(const Context & context, std::span<const BatchItem> items) {
    for (const BatchItem & item : items) {
        check_params(item.params, context.info());
        answer_length(item.params, item.prompt.size(), context.n_ctx(), context.info());
        check_sequences(context, item.params, 0);
    }
}

} // namespace

std::vector<Generation> generate_batch(Context & context, std::span<const BatchItem> items) {
    check_batch(context, items);
    std::vector<Generation> out(items.size());
    DecodeBatch             batch(context, DecodeBatch::Reuse::nothing);
    size_t                  n_started = 0;
    while (n_started < items.size() || batch.size() > 0) {
        for (; n_started < items.size() && batch.has_room(items[n_started].params); n_started++) {
            batch.start(n_started, items[n_started].prompt, items[n_started].params);
        }
        for (DecodeBatch::Ended & ended : batch.step()) {
            if (ended.error) {
                std::rethrow_exception(ended.error);
            }
            out[ended.id] = std::move(ended.generation);
        }
    }
    return out;
}

} // namespace buoy
