#include "support/tap-log.h"
#include <algorithm>
#include <numeric>

namespace buoy::test {

float Seen::at(int64_t outer, int64_t middle, int64_t inner) const {
    return data.at(static_cast<size_t>((outer * shape[1] + middle) * shape[2] + inner));
}

std::string tap_key(const TapPoint & point, int32_t sequence) {
    return tap_name(point.tap, point.layer) + "/" + std::to_string(static_cast<int>(point.reduce)) + "/" +
           std::to_string(sequence);
}

TapLog observe(Context & context, Batch batch, const std::vector<TapPoint> & taps) {
    TapLog log;
    for (size_t s = 0; s < batch.size(); s++) {
        observer(batch[s]).taps = taps;
        observer(batch[s]).sink = [&log, s](const TapEvent & event) {
            const int64_t n                                    = event.shape[0] * event.shape[1] * event.shape[2];
            log[tap_key(event.point, static_cast<int32_t>(s))] = {event.shape, {event.data, event.data + n}};
        };
    }
    context.forward(batch);
    return log;
}

std::map<Tap, std::vector<float>> watch_layers(Context & context, ForwardRequest request,
                                               const std::vector<TapPoint> & also) {
    std::map<Tap, std::vector<float>> seen;
    std::vector<TapPoint> &           taps = observer(request).taps;
    for (int32_t il = 0; il < context.info().n_layer; il++) {
        taps.push_back({Tap::pattern, il});
        taps.push_back({Tap::resid_post, il});
    }
    taps.insert(taps.end(), also.begin(), also.end());
    observer(request).sink = [&](const TapEvent & event) {
        const size_t n = static_cast<size_t>(event.shape[0] * event.shape[1] * event.shape[2]);
        seen[event.point.tap].insert(seen[event.point.tap].end(), event.data, event.data + n);
    };
    context.forward(request);
    return seen;
}

std::vector<float> behind_blocks(const std::vector<float> & hidden, size_t n_layer) {
    return {hidden.begin() + static_cast<ptrdiff_t>(hidden.size() / (n_layer + 1)), hidden.end()};
}

Seen reduced(const Seen & pattern, TapReduce reduce, const TapSelection & selection,
             const std::vector<int32_t> & row_positions, const std::vector<int32_t> & key_positions) {
    const auto all_if_empty = [](std::vector<int32_t> chosen, int64_t n) {
        if (chosen.empty()) {
            chosen.resize(static_cast<size_t>(n));
            std::iota(chosen.begin(), chosen.end(), 0);
        }
        return chosen;
    };
    const std::vector<int32_t> heads  = all_if_empty(selection.heads, pattern.shape[0]);
    const std::vector<int32_t> rows   = all_if_empty(selection.rows, pattern.shape[1]);
    const auto                 H      = static_cast<int64_t>(heads.size());
    const auto                 T      = static_cast<int64_t>(rows.size());
    const int64_t              K      = pattern.shape[2];
    const auto                 R      = static_cast<int64_t>(selection.regions.size());
    const bool                 pooled = reduce == TapReduce::regions;
    const int64_t              outer  = reduce == TapReduce::heads || pooled ? 1 : H;
    const int64_t              middle = reduce == TapReduce::received ? 1 : pooled ? R : T;
    const int64_t              inner  = pooled ? R : K;
    std::vector<double>        sums(static_cast<size_t>(outer * middle * inner));

    const auto regions_of = [&](int32_t position) {
        std::vector<int64_t> regions;
        for (int64_t r = 0; r < R; r++) {
            const auto & region = selection.regions[static_cast<size_t>(r)];
            if (std::find(region.begin(), region.end(), position) != region.end()) {
                regions.push_back(r);
            }
        }
        return regions;
    };
    for (int64_t h = 0; h < H; h++) {
        for (int64_t t = 0; t < T; t++) {
            const int32_t row = rows[static_cast<size_t>(t)];
            for (int64_t k = 0; k < K; k++) {
                const double p = static_cast<double>(pattern.at(heads[static_cast<size_t>(h)], row, k));
                if (pooled) {
                    for (int64_t of_row : regions_of(row_positions[static_cast<size_t>(row)])) {
                        for (int64_t of_key : regions_of(key_positions[static_cast<size_t>(k)])) {
                            sums[static_cast<size_t>(of_row * R + of_key)] += p / static_cast<double>(H);
                        }
                    }
                    continue;
                }
                const double  share = reduce == TapReduce::heads      ? p / static_cast<double>(H)
                                      : reduce == TapReduce::received ? p / static_cast<double>(T)
                                                                      : p;
                const int64_t at =
                    (reduce == TapReduce::heads ? 0 : h) * middle + (reduce == TapReduce::received ? 0 : t);
                sums[static_cast<size_t>(at * inner + k)] += share;
            }
        }
    }
    return {{outer, middle, inner}, {sums.begin(), sums.end()}};
}

} // namespace buoy::test
