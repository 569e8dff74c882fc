// Elastic-Cache (arXiv 2510.14973): the first masks there are form a window, wherever they are. A pass computes the window, what was
// just written, and the positions that attention goes to most; the engine computes everything from the layer on in which these drift.

#include "decode/rule.h"

#include <algorithm>
#include <limits>
#include <set>

namespace buoy {

namespace {

class Window : public Schedule {
public:
    Window(const DecodeSettings & settings, const GenerateParams & params, const Canvas & canvas)
        : n_layer_(settings.n_layer), first_(canvas.first()) {
        const SettingReader s(params, settings.shift);
        length_      = static_cast<size_t>(s.whole("window_length"));
        gamma_       = static_cast<float>(s.number("gamma"));
        n_track_     = static_cast<size_t>(s.whole("track_num"));
        n_due_       = s.whole("tokens_per_iter");
        window_only_ = s.is_on("block_caching");
        eos_id_      = s.is_set("eos_id") ? s.whole("eos_id") : -1;
    }

    std::optional<Pass> next(const Canvas & canvas) override {
        std::vector<int32_t> masked = canvas.masked({first_, std::min(end_, canvas.end())});
        if (masked.empty() || canvas.is_done()) {
            return {};
        }
        std::vector<int32_t> window = masked;
        window.resize(std::min(window.size(), length_));
        const std::vector<int32_t> & queried = window_only_ ? window : masked;

        Pass pass;
        pass.kv    = KvUse::store;
        pass.to    = canvas.end();
        pass.asked = window;
        pass.due   = n_due_;
        pass.span  = {window.front(), window.back() + 1};
        pass.reset = DriftReset{{}, gamma_};
        if (stored_) {
            std::set<int32_t> rows = track_;
            rows.insert(written_.begin(), written_.end());
            rows.insert(queried.begin(), queried.end());
            pass.positions.assign(rows.begin(), rows.end());
            pass.reset->track.assign(track_.begin(), track_.end());
        }
        stored_ = true;
        watch(canvas, queried, pass);
        return pass;
    }

    // The first end token cuts off what lies behind it.
    void end_step(Canvas & canvas, StepReport & report) override {
        written_.clear();
        for (const auto & [position, id] : report.committed) {
            written_.push_back(position);
            if (id == eos_id_ && !ended_) {
                end_ = std::min(end_, position); // committed is sorted
            }
        }
        if (end_ < canvas.end()) {
            ended_ = true;
            canvas.leave_masks(end_);
        }
    }

private:
    // Finds for each layer what the masked rows attend to most, among what is written.
    void watch(const Canvas & canvas, const std::vector<int32_t> & queried, Pass & pass) {
        track_.clear();
        Observer & observer = pass.observers.emplace_back();
        for (int32_t il = 0; il < n_layer_; il++) {
            observer.taps.push_back({Tap::pattern, il, TapReduce::received});
        }
        for (const int32_t position : queried) {
            const auto & rows = pass.positions;
            const auto   row  = std::lower_bound(rows.begin(), rows.end(), position) - rows.begin();
            observer.selection.rows.push_back(rows.empty() ? position : static_cast<int32_t>(row));
        }
        observer.sink = [this, masked = canvas.masked({0, canvas.end()})](const TapEvent & event) { // [H, 1, K]
            const auto H = static_cast<size_t>(event.shape[0]), K = static_cast<size_t>(event.shape[2]);
            std::vector<std::pair<double, int32_t>>
                received; // negative, so that the largest come first, ties by position
            for (size_t k = 0; k < K; k++) {
                double sum = 0.0;
                for (size_t h = 0; h < H; h++) {
                    sum += static_cast<double>(event.data[h * K + k]);
                }
                if (!std::binary_search(masked.begin(), masked.end(), static_cast<int32_t>(k))) {
                    received.emplace_back(-sum, static_cast<int32_t>(k));
                }
            }
            const auto n = std::min(n_track_, received.size());
            std::partial_sort(received.begin(), received.begin() + static_cast<std::ptrdiff_t>(n), received.end());
            for (size_t i = 0; i < n; i++) {
                track_.insert(received[i].second);
            }
        };
    }

    const int32_t n_layer_;
    const int32_t first_;
    size_t        length_ = 0, n_track_ = 0;
    float         gamma_       = 0.0f;
    int32_t       n_due_       = 1;
    bool          window_only_ = true; // what is computed of the masks
    int32_t       eos_id_      = -1;

    bool                 stored_ = false; // there was a pass over everything
    bool                 ended_  = false;
    int32_t              end_    = std::numeric_limits<int32_t>::max(); // masks behind it stay
    std::set<int32_t>    track_;
    std::vector<int32_t> written_; // by the last step
};

} // namespace

std::unique_ptr<Schedule> make_window(const DecodeSettings & settings, const GenerateParams & params,
                                      const Canvas & canvas) {
    return std::make_unique<Window>(settings, params, canvas);
}

} // namespace buoy
