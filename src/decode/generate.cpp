#include "buoy/generate.h"

#include "buoy/message.h"
#include "buoy/session.h"
#include "decode/decoder.h"

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

// The sequences of a context that nobody uses.
class FreeSequences {
public:
    explicit FreeSequences(int32_t n) {
        for (int32_t sequence = n - 1; sequence >= 0; sequence--) {
            free_.push_back(sequence);
        }
    }

    bool has(const GenerateParams & params) const {
        return free_.size() >= static_cast<size_t>(sequence_count(params));
    }

    DecoderPlace take(const GenerateParams & params) {
        DecoderPlace place;
        place.sequence      = take_one();
        place.unconditional = sequence_count(params) > 1 ? take_one() : place.sequence;
        return place;
    }

    void give_back(const DecoderPlace & place) {
        if (place.unconditional != place.sequence) {
            free_.push_back(place.unconditional);
        }
        free_.push_back(place.sequence);
    }

private:
    int32_t take_one() {
        const int32_t sequence = free_.back();
        free_.pop_back();
        return sequence;
    }

    std::vector<int32_t> free_; // the last is the next
};

struct Running {
    size_t                   item;
    DecoderPlace             place;
    std::unique_ptr<Decoder> decoder;
    size_t                   request = 0; // of the pass, that is its first
};

void check_batch(const Context & context, std::span<const BatchItem> items) {
    for (const BatchItem & item : items) {
        check_params(item.params, context.info());
        answer_length(item.params, item.prompt.size(), context.n_ctx());
        check_sequences(context, item.params, 0);
    }
}

} // namespace

std::vector<Generation> generate_batch(Context & context, std::span<const BatchItem> items) {
    check_batch(context, items);
    std::vector<Generation>     out(items.size());
    std::vector<Running>        running;
    std::vector<ForwardRequest> batch;
    FreeSequences               free(context.params().n_sequences);
    size_t                      n_started = 0;
    while (n_started < items.size() || !running.empty()) {
        for (; n_started < items.size() && free.has(items[n_started].params); n_started++) {
            const BatchItem &  item  = items[n_started];
            const DecoderPlace place = free.take(item.params);
            running.push_back({n_started, place, std::make_unique<Decoder>(context, place, item.prompt, item.params)});
            running.back().decoder->begin(context);
        }
        batch.clear();
        std::erase_if(running, [&](Running & one) {
            one.request = batch.size();
            if (one.decoder->next(batch)) {
                return false;
            }
            out[one.item] = one.decoder->finish();
            free.give_back(one.place);
            return true;
        });
        if (batch.empty()) {
            continue;
        }
        const std::vector<ForwardResult> & results = context.forward(batch);
        for (Running & one : running) {
            one.decoder->take(results[one.request]);
        }
    }
    return out;
}

} // namespace buoy
