// Ours: a stored row is computed again once what it attends to has changed, if the masks that are about to be written attend to it.
// Elastic-Cache compares the attention of a few positions to know when everything is stale; here each row has its own account.

#include "decode/adaptive-cache.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace buoy {

namespace {

class AnchorCache : public AdaptiveCache {
public:
    AnchorCache(const DecodeSettings & settings, const GenerateParams & params, const Canvas & canvas)
        : shift_(settings.shift), first_(canvas.first()), T_(static_cast<size_t>(canvas.end())),
          n_layer_(settings.n_layer), stale_(SettingReader(params, settings.shift).number("tau_stale")),
          weight_(T_ * T_), moved_(T_) {}

    void prepare(const Canvas & canvas, Pass & pass) override {
        rows_.resize(T_);
        std::iota(rows_.begin(), rows_.end(), 0);
        if (stored_) {
            rows_          = choose(canvas, pass.asked);
            pass.positions = rows_;
        }
        stored_ = true;
        masked_ = canvas.masked({first_, canvas.end()});
        for (const int32_t row : rows_) {
            moved_[static_cast<size_t>(row)] = 0.0;
            std::fill_n(&weight_[static_cast<size_t>(row) * T_], T_, 0.0f);
        }
        Observer & observer = pass.observers.emplace_back();
        for (int32_t il = 0; il < n_layer_; il++) {
            observer.taps.push_back({Tap::pattern, il});
        }
        observer.sink = [this](const TapEvent & event) { // [H, rows, K]
            const auto n_rows = static_cast<size_t>(event.shape[1]);
            for (size_t i = 0; i < static_cast<size_t>(event.shape[0]) * n_rows; i++) {
                float * weight = &weight_[static_cast<size_t>(rows_[i % n_rows]) * T_];
                for (size_t k = 0; k < T_; k++) {
                    weight[k] = std::max(weight[k], event.data[i * T_ + k]);
                }
            }
        };
    }

private:
    int32_t row_of(int32_t position) const { return shift_ ? std::max(position - 1, 0) : position; }

    // The rows that are asked for, what was just written, and what is stale and matters.
    std::vector<int32_t> choose(const Canvas & canvas, const std::vector<int32_t> & asked) {
        std::set<int32_t> chosen;
        for (const int32_t position : masked_) {
            if (!canvas.is_masked(position)) {
                chosen.insert(position);
                for (size_t row = 0; row < T_; row++) {
                    moved_[row] += static_cast<double>(weight_[row * T_ + static_cast<size_t>(position)]);
                }
            }
        }
        std::vector<double> received(T_); // from the rows asked for, each with the head that looks there most
        for (const int32_t position : asked) {
            const auto row = static_cast<size_t>(row_of(position));
            chosen.insert(row_of(position));
            for (size_t k = 0; k < T_; k++) {
                received[k] += static_cast<double>(weight_[row * T_ + k]) / static_cast<double>(asked.size());
            }
        }
        for (size_t row = 0; row < T_; row++) {
            if (moved_[row] * received[row] > stale_) {
                chosen.insert(static_cast<int32_t>(row));
            }
        }
        return {chosen.begin(), chosen.end()};
    }

    const bool    shift_;
    const int32_t first_; // of the answer
    const size_t  T_;
    const int32_t n_layer_;
    const double  stale_;

    std::vector<float>
        weight_; // [T, T] each row's attention when it was last computed: the most of all heads and layers
    std::vector<double>  moved_;          // by row: its attention to what was written since
    std::vector<int32_t> rows_;           // of the last pass, positions
    std::vector<int32_t> masked_;         // before its tokens were written
    bool                 stored_ = false; // there was a pass over everything
};

} // namespace

std::unique_ptr<AdaptiveCache> make_anchor(const DecodeSettings & settings, const GenerateParams & params,
                                           const Canvas & canvas) {
    return std::make_unique<AnchorCache>(settings, params, canvas);
}

} // namespace buoy
