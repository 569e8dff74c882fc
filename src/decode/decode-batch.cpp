#include "decode/decode-batch.h"

#include <algorithm>

namespace buoy {

DecodeBatch::DecodeBatch(Context & context, Reuse reuse)
    : context_(context), reuse_(reuse), places_(static_cast<size_t>(context.params().n_sequences)) {}

bool DecodeBatch::has_room(const GenerateParams & params) const {
    return std::count_if(places_.begin(), places_.end(), [](const Place & place) { return !place.in_use; }) >=
           sequence_count(params);
}

int32_t DecodeBatch::take_place(const std::vector<int32_t> & prompt) {
    size_t    best   = places_.size();
    ptrdiff_t n_best = -1;
    for (size_t i = 0; i < places_.size(); i++) {
        const std::vector<int32_t> & stored = places_[i].stored;
        const ptrdiff_t              n_same =
            std::mismatch(stored.begin(), stored.end(), prompt.begin(), prompt.end()).first - stored.begin();
        if (!places_[i].in_use && n_same > n_best) {
            best   = i;
            n_best = n_same;
        }
    }
    places_[best].in_use = true;
    return static_cast<int32_t>(best);
}

DecoderPlace DecodeBatch::take_places(const std::vector<int32_t> & prompt, const GenerateParams & params) {
    DecoderPlace place;
    place.sequence      = take_place(prompt);
    place.unconditional = sequence_count(params) > 1 ? take_place({}) : place.sequence;
    return place;
}

void DecodeBatch::give_back(const DecoderPlace & place, std::vector<int32_t> stored) {
    places_[static_cast<size_t>(place.unconditional)] = {};
    places_[static_cast<size_t>(place.sequence)]      = {
             reuse_ == Reuse::prefixes ? std::move(stored) : std::vector<int32_t>(), false};
}

void DecodeBatch::start(size_t id, const std::vector<int32_t> & prompt, const GenerateParams & params) {
    const DecoderPlace place = take_places(prompt, params);
    const bool watched = static_cast<bool>(params.on_forward); // who looks on may also have changed what is stored
    std::vector<int32_t> stored = std::move(places_[static_cast<size_t>(place.sequence)].stored);
    try {
        auto decoder = std::make_unique<Decoder>(
            context_, place, prompt, params, watched ? std::span<const int32_t>() : std::span<const int32_t>(stored));
        decoder->begin(context_);
        const bool alone = watched || decoder->is_alone();
        running_.push_back({id, place, alone, std::move(decoder), 0, nullptr});
    } catch (...) {
        give_back(place, std::move(stored)); // nothing was computed: what was there still is
        throw;
    }
}

int32_t DecodeBatch::n_final(size_t id) const {
    const auto one =
        std::find_if(running_.begin(), running_.end(), [&](const Running & other) { return other.id == id; });
    return one->decoder->n_final();
}

void DecodeBatch::compute(const std::vector<ForwardRequest> & batch, std::span<Running * const> group) {
    try {
        const std::vector<ForwardResult> & results = context_.forward(batch);
        for (Running * one : group) {
            try {
                one->decoder->take(results[one->request]);
            } catch (...) {
                one->error = std::current_exception();
            }
        }
    } catch (...) {
        for (Running * one : group) {
            one->error = std::current_exception();
        }
    }
}

std::vector<DecodeBatch::Ended> DecodeBatch::step() {
    std::vector<Ended>          ended;
    std::vector<ForwardRequest> batch;
    std::vector<Running *>      together;
    const auto                  end = [&](Running & one, Generation generation) {
        const bool reusable = !one.error && !one.alone;
        give_back(one.place, reusable ? one.decoder->stored() : std::vector<int32_t>());
        ended.push_back({one.id, std::move(generation), one.error});
        one.decoder.reset();
    };
    for (Running & one : running_) {
        std::vector<ForwardRequest>   own;
        std::vector<ForwardRequest> & requests = one.alone ? own : batch;
        one.request                            = requests.size();
        bool goes_on                           = false;
        try {
            goes_on = one.decoder->next(requests);
        } catch (...) {
            one.error = std::current_exception();
            requests.resize(one.request);
        }
        if (goes_on && !one.alone) {
            together.push_back(&one);
        } else if (goes_on) {
            Running * const itself[] = {&one};
            compute(own, itself);
        } else if (!one.error) {
            end(one, one.decoder->finish());
        }
    }
    if (!together.empty()) {
        compute(batch, together);
    }
    for (Running & one : running_) {
        if (one.error) {
            end(one, {});
        }
    }
    std::erase_if(running_, [](const Running & one) { return one.decoder == nullptr; });
    return ended;
}

} // namespace buoy
