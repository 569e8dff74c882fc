// Canvases of random tokens behind what was read causally (DiffusionGemma's entropy-bound sampler). A step keeps the tokens that it
// drew where the model is surest, and makes all others random again; what a canvas becomes is the model's best guess in its last step.

#include "buoy/message.h"
#include "decode/random.h"
#include "decode/schedule.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace buoy {

namespace {

// What a number is drawn for.
enum DrawFor : uint64_t { draw_token, draw_noise, draw_canvas };

class Canvases : public Schedule {
public:
    Canvases(const DecodeSettings & settings, const GenerateParams & params)
        : settings_(settings), params_(params), random_(params.seed) {}

    std::optional<Pass> next(const Canvas & canvas) override {
        const bool is_done = n_left_ == 0 && (ended_ || canvas.end() >= canvas.wanted());
        if (canvas.is_stopped() || is_done) {
            return {};
        }
        return n_left_ == 0 ? reading(canvas) : denoising(canvas);
    }

    std::optional<Writes> decide(const Canvas & canvas, std::span<const Candidate> candidates,
                                 const ForwardResult & result) override {
        Writes writes;
        if (!candidates.empty()) {
            writes = renoise(canvas, result.summaries);
            see_best(result.summaries);
        }
        n_left_ = stops_ ? 0 : n_left_ - 1;
        step_++;
        return writes;
    }

    void end_step(Canvas & canvas, StepReport & report) override {
        const auto ids  = [](const std::vector<int32_t> & all) { return std::vector<float>(all.begin(), all.end()); };
        report.measured = {{"sampled", ids(drawn_)},
                           {"accepted", ids(accepted_)},
                           {"argmax", ids(best_)},
                           {"mean_entropy", {static_cast<float>(entropy_)}},
                           {"stop", {stops_ ? 1.0f : 0.0f}}};
        if (n_left_ == 0) {
            report.finished = finish(canvas);
            index_++;
        }
    }

    // A run that is stopped has its best guess instead of noise.
    void close(Canvas & canvas) override {
        if (n_left_ > 0) {
            finish(canvas);
        }
    }

    bool is_settled() const override { return n_left_ == 0; }

    int32_t n_final(const Canvas & canvas) const override { return n_left_ == 0 ? canvas.end() : begin_; }

private:
    // Of the best guess up to the end of the text, what differs from the canvas.
    Writes finish(Canvas & canvas) {
        Writes     writes;
        const auto is_end = [&](int32_t id) {
            return std::find(params_.end_ids.begin(), params_.end_ids.end(), id) != params_.end_ids.end();
        };
        for (size_t i = 0; i < best_.size(); i++) {
            const int32_t position = begin_ + static_cast<int32_t>(i);
            const int32_t id       = ended_ ? settings_.canvas.pad_id : best_[i];
            ended_                 = ended_ || is_end(id);
            if (canvas.token(position) != id) {
                writes.emplace_back(position, id);
            }
        }
        canvas.write(writes);
        return writes;
    }

    // What is not stored yet, causally. The last part of it begins a canvas.
    Pass reading(const Canvas & canvas) {
        Pass pass;
        pass.kind      = PassKind::store;
        pass.from      = canvas.n_stored();
        pass.to        = std::min(pass.from + params_.n_batch, canvas.end());
        pass.kv        = KvUse::store;
        pass.attention = AttentionKind::causal;
        pass.n_stored  = pass.to;
        pass.block     = index_;
        pass.in_prompt = canvas.end() == canvas.first();
        pass.progress  = static_cast<float>(pass.to) / static_cast<float>(canvas.end());
        if (pass.to == canvas.end()) {
            begin_  = pass.to;
            n_left_ = settings_.canvas.steps;
            stops_  = false;
            earlier_.clear();
            best_.clear();
            pass.also = first_tokens();
        }
        return pass;
    }

    // Its keys and values are replaced by every pass until one reads what became of it.
    Pass denoising(const Canvas & canvas) {
        Pass pass;
        pass.from      = begin_;
        pass.to        = canvas.end();
        pass.kv        = KvUse::store;
        pass.attention = AttentionKind::full;
        pass.shift     = false;
        pass.n_stored  = begin_;
        pass.span      = {pass.from, pass.to};
        pass.due       = pass.to - pass.from;
        pass.block     = index_;
        pass.asked.resize(static_cast<size_t>(pass.due));
        std::iota(pass.asked.begin(), pass.asked.end(), pass.from);
        if (n_left_ < settings_.canvas.steps) {
            pass.condition = SelfCondition{temperature(n_left_ + 1), {}};
        }
        pass.keep_logits = n_left_ > 1;
        pass.draw        = RowDraw{temperature(n_left_), uniforms()};
        return pass;
    }

    float temperature(int32_t n_left) const {
        const CanvasDefaults & c = settings_.canvas;
        return static_cast<float>(c.t_min + (c.t_max - c.t_min) * n_left / c.steps);
    }

    const RecordedDraws * recorded() const {
        if (params_.draws.empty()) {
            return nullptr;
        }
        if (static_cast<size_t>(step_) >= params_.draws.size()) {
            fail("there are recorded draws for ", params_.draws.size(), " steps, and the run needs more");
        }
        return &params_.draws[static_cast<size_t>(step_)];
    }

    template <typename T> const std::vector<T> & checked(const std::vector<T> & values, const char * what) const {
        if (values.size() != static_cast<size_t>(settings_.block_length)) {
            fail("the recorded draws of step ", step_, " have ", values.size(), " ", what, ", the canvas has ",
                 settings_.block_length, " positions");
        }
        return values;
    }

    int32_t random_id(int32_t position, DrawFor purpose) const {
        const double u = random_.uniform(static_cast<uint64_t>(step_), static_cast<uint64_t>(position), purpose);
        return static_cast<int32_t>(u * settings_.n_vocab);
    }

    Writes first_tokens() const {
        Writes tokens;
        for (int32_t i = 0; i < settings_.block_length; i++) {
            const RecordedDraws * draws = recorded();
            const int32_t id = draws != nullptr ? checked(draws->canvas, "initial tokens")[static_cast<size_t>(i)]
                                                : random_id(begin_ + i, draw_canvas);
            tokens.emplace_back(begin_ + i, id);
        }
        return tokens;
    }

    std::vector<float> uniforms() const {
        std::vector<float> all(static_cast<size_t>(settings_.block_length));
        if (settings_.draws_best) {
            return all;
        }
        for (size_t i = 0; i < all.size(); i++) {
            const auto            at    = static_cast<uint64_t>(begin_) + i;
            const RecordedDraws * draws = recorded();
            const double          u     = draws != nullptr ? checked(draws->uniform, "numbers")[i]
                                                           : random_.uniform(static_cast<uint64_t>(step_), at, draw_token);
            all[i] = static_cast<float>(std::floor(u * 0x1.0p24) * 0x1.0p-24); // what a float holds exactly
        }
        return all;
    }

    // The surest positions take what was drawn for them, as many as can be before the sum of their entropies passes the bound; the
    // others become random.
    Writes renoise(const Canvas & canvas, const std::vector<RowSummary> & rows) {
        const RecordedDraws * draws = recorded();
        std::vector<int32_t>  order(rows.size());
        std::iota(order.begin(), order.end(), 0);
        const auto entropy = [&](int32_t i) { return rows[static_cast<size_t>(i)].entropy; };
        std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return entropy(a) < entropy(b); });
        accepted_.clear();
        double sum = 0.0;
        for (const int32_t i : order) {
            if (sum > settings_.canvas.entropy_bound) {
                break;
            }
            accepted_.push_back(i);
            sum += static_cast<double>(entropy(i));
        }
        std::sort(accepted_.begin(), accepted_.end());

        Writes writes;
        drawn_.clear();
        for (size_t i = 0; i < rows.size(); i++) {
            const int32_t position = begin_ + static_cast<int32_t>(i);
            drawn_.push_back(settings_.draws_best ? rows[i].id : rows[i].drawn_id);
            const bool    kept = std::binary_search(accepted_.begin(), accepted_.end(), static_cast<int32_t>(i));
            const int32_t id   = kept               ? drawn_.back()
                                 : draws != nullptr ? checked(draws->ids, "tokens")[i]
                                                    : random_id(position, draw_noise);
            if (id < 0 || id >= settings_.n_vocab) {
                fail("a recorded draw is token ", id, ", the model has ", settings_.n_vocab, " tokens");
            }
            if (id != canvas.token(position)) {
                writes.emplace_back(position, id);
            }
        }
        return writes;
    }

    // The best guess, whether it is the same as before, and how sure it is.
    void see_best(const std::vector<RowSummary> & rows) {
        const auto n_same = static_cast<size_t>(settings_.canvas.stability_threshold);
        best_.clear();
        entropy_ = 0.0;
        for (const RowSummary & row : rows) {
            best_.push_back(row.id);
            entropy_ += static_cast<double>(row.entropy) / static_cast<double>(rows.size());
        }
        const bool stable = earlier_.size() >= n_same &&
                            std::all_of(earlier_.end() - static_cast<std::ptrdiff_t>(n_same), earlier_.end(),
                                        [&](const std::vector<int32_t> & other) { return other == best_; });
        stops_ = stable && entropy_ < settings_.canvas.confidence_threshold;
        earlier_.push_back(best_);
        if (earlier_.size() > n_same) {
            earlier_.erase(earlier_.begin());
        }
    }

    const DecodeSettings & settings_;
    const GenerateParams & params_;
    const RandomSource     random_;

    int32_t begin_  = 0; // of the canvas
    int32_t index_  = 0; // canvases before it
    int32_t step_   = 0; // of the run
    int32_t n_left_ = 0; // steps of the canvas; 0: there is none
    bool    stops_  = false;
    bool    ended_  = false;

    std::vector<int32_t>              drawn_, accepted_, best_; // of the last step
    double                            entropy_ = 0.0;
    std::vector<std::vector<int32_t>> earlier_; // best guesses, as many as have to agree
};

} // namespace

std::unique_ptr<Schedule> make_canvases(const DecodeSettings & settings, const GenerateParams & params) {
    return std::make_unique<Canvases>(settings, params);
}

} // namespace buoy
