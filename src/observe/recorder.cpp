#include "buoy/record.h"

#include "buoy/message.h"
#include "buoy/parse.h"
#include "engine/request-check.h"
#include "observe/predicted-size.h"
#include "observe/record-member.h"
#include "observe/record-meta.h"
#include "observe/run-log.h"
#include "observe/write-queue.h"

#include <algorithm>
#include <optional>

namespace buoy {

namespace {

constexpr uint64_t queue_limit = 64ull << 20; // bytes

StepPlan plan_run(const ModelInfo & info, const RecordedRun & run) {
    if (run.generate.n_predict < 0) {
        fail("recording: the number of tokens to generate is ", run.generate.n_predict, ", expected 0 or more");
    }
    if (!run.single_pass) {
        return plan_steps(info, run.prompt_tokens, run.generate);
    }
    const auto    n_prompt = static_cast<int32_t>(run.prompt_tokens.size());
    const auto    n_canvas = static_cast<int32_t>(run.canvas.size()), n_all = n_prompt + n_canvas;
    const int32_t from = n_canvas > 0 ? n_prompt : 0;
    return StepPlan{{{from, n_all - from, n_all}}, false, false, n_all, n_all};
}

// The sequence before the first step.
std::vector<int32_t> initial_sequence(const ModelInfo & info, const RecordedRun & run, const StepPlan & plan) {
    std::vector<int32_t> tokens = run.prompt_tokens;
    tokens.insert(tokens.end(), run.canvas.begin(), run.canvas.end());
    if (info.traits.is_diffusion()) {
        tokens.resize(static_cast<size_t>(plan.n_initial), info.traits.mask_id);
    }
    return tokens;
}

std::vector<std::vector<int32_t>> region_positions(const std::vector<Region> & regions) {
    std::vector<std::vector<int32_t>> out;
    for (const Region & region : regions) {
        std::vector<int32_t> & positions = out.emplace_back();
        for (const auto & [first, end] : region.spans) {
            for (int32_t position = first; position < end; position++) {
                positions.push_back(position);
            }
        }
    }
    return out;
}

// [L, T], 1 where a layer computed a position's row.
std::vector<int32_t> computed_rows(const StepReport & report, int32_t n_layer, size_t n_positions) {
    std::vector<int32_t> out;
    for (int32_t il = 0; il < n_layer; il++) {
        const bool is_reset = report.reset_layer && *report.reset_layer >= 0 && il >= *report.reset_layer;
        const auto chosen =
            report.refreshed ? report.refreshed->find(il) : std::map<int32_t, std::vector<int32_t>>::const_iterator();
        const bool           part  = report.refreshed && chosen != report.refreshed->end();
        const bool           whole = is_reset || (report.computed.empty() && !part);
        std::vector<int32_t> row(n_positions, whole ? 1 : 0);
        if (!whole) {
            for (const int32_t position : part ? chosen->second : report.computed) {
                row[static_cast<size_t>(position)] = 1;
            }
        }
        out.insert(out.end(), row.begin(), row.end());
    }
    return out;
}

} // namespace

class Recorder::Impl {
public:
    Impl(const RecordParams & params, const ModelInfo & info, const Vocab & vocab, const RecordedRun & run);

    uint64_t predicted_size() const { return predicted_; }

    void prepare(int32_t step, ForwardRequest & request);
    void end_step(const StepReport & report, const std::vector<int32_t> & tokens);
    void finish();
    void set_stopped(bool stopped) { stopped_ = stopped; }

private:
    void take(const TapEvent & event);
    void push(const std::string & name, std::string data);
    void log(LogLevel level, const std::string & text) const;

    const RecordParams                      params_;
    const ModelInfo                         info_;
    const Vocab                             vocab_;
    const RecordedRun                       run_;
    const StepPlan                          plan_;
    const RecordChoice                      choice_;
    const std::vector<std::vector<int32_t>> regions_;
    const RecordMeta                        meta_;
    uint64_t                                predicted_ = 0;
    RunLog                                  run_log_;
    std::vector<int32_t>                    steps_; // complete and recorded

    // of the step that is being computed
    int32_t              step_   = -1;
    bool                 passed_ = false; // there was a pass, and its rows are to be recorded
    std::vector<int32_t> rows_;           // absolute
    std::vector<int32_t> row_indices_;    // in the pass; empty: all

    size_t n_overflow_ = 0;
    bool   in_step_    = false;
    bool   stopped_    = false;
    bool   finished_   = false;

    // the thread of the queue ends before what it writes to
    std::optional<PendingFile> file_;
    std::optional<NpzWriter>   npz_;
    std::optional<WriteQueue>  queue_;
};

Recorder::Impl::Impl(const RecordParams & params, const ModelInfo & info, const Vocab & vocab, const RecordedRun & run)
    : params_(params), info_(info), vocab_(vocab), run_(run), plan_(plan_run(info_, run_)),
      choice_(choose_record(params_, info_, static_cast<int32_t>(plan_.steps.size()), plan_.n_positions)),
      regions_(region_positions(params_.regions)), meta_{params_, choice_, info_, vocab_, run_},
      run_log_(initial_sequence(info_, run_, plan_), info_.traits.mask_id) {
    const auto          n_steps = static_cast<int32_t>(plan_.steps.size());
    const RecordedShape shape   = {info_, plan_, meta_.size_max(plan_.n_positions, n_steps)};
    predicted_                  = predict_size(choice_, shape);
    if (predicted_ > params_.max_size) {
        fail(printable(params_.path), ": the recording could need ", size_text(predicted_), " (", predicted_,
             " bytes), the limit is ", size_text(params_.max_size), " (`record.max_size`); ",
             advise_smaller(choice_, shape, params_.max_size));
    }
    file_.emplace(params_.path, params_.force, 0600, params_.log);
    if (!plan_.open_ended) {
        file_->expect_size(predicted_);
    }
    npz_.emplace(*file_);
    queue_.emplace(*npz_, queue_limit);
}

void Recorder::Impl::log(LogLevel level, const std::string & text) const {
    if (params_.log) {
        params_.log(level, text);
    }
}

void Recorder::Impl::push(const std::string & name, std::string data) {
    queue_->push(name, data.size(), [&] { return std::move(data); });
}

void Recorder::Impl::prepare(int32_t step, ForwardRequest & request) {
    queue_->check();
    if (in_step_) { // the step is computed once more, the last pass counts
        queue_->cut();
    }
    in_step_ = true;
    passed_  = choice_.has_step(step);
    step_    = step;
    rows_.clear();
    row_indices_.clear();
    std::vector<int32_t> positions = positions_of(request);
    run_log_.begin_step(positions, request.tokens);
    if (!passed_) {
        return;
    }
    positions.resize(positions.size() - static_cast<size_t>(request.n_shadow));
    for (size_t i = 0; i < positions.size(); i++) {
        if (choice_.rows.empty() || std::binary_search(choice_.rows.begin(), choice_.rows.end(), positions[i])) {
            rows_.push_back(positions[i]);
            row_indices_.push_back(static_cast<int32_t>(i));
        }
    }
    if (rows_.empty()) {
        return;
    }
    if (rows_.size() == request.tokens.size()) {
        row_indices_.clear();
    }
    Observer & observer = request.observers.emplace_back();
    for (int32_t layer : choice_.layers) {
        for (Tap tap : choice_.taps) {
            observer.taps.push_back({tap, layer, tap == Tap::pattern ? choice_.reduce : TapReduce::none});
        }
    }
    observer.selection.heads = choice_.heads;
    observer.selection.rows  = row_indices_;
    if (choice_.reduce == TapReduce::regions) {
        observer.selection.regions = regions_;
    }
    observer.sink = [this](const TapEvent & event) { take(event); };
}

void Recorder::Impl::take(const TapEvent & event) {
    const TapMember member(event, choice_, row_indices_);
    queue_->push(tap_member_name(event.point.tap, step_, event.point.layer), member.size(),
                 [&] { return member.bytes(n_overflow_); });
}

void Recorder::Impl::end_step(const StepReport & report, const std::vector<int32_t> & tokens) {
    queue_->check();
    if (in_step_ && passed_) {
        push(rows_name(step_), array_member({static_cast<int64_t>(rows_.size())}, rows_));
        if (plan_.adaptive) {
            const auto T = static_cast<int64_t>(tokens.size());
            push(computed_name(step_),
                 array_member({info_.n_layer, T}, computed_rows(report, info_.n_layer, tokens.size())));
        }
        steps_.push_back(step_);
    }
    queue_->keep();
    run_log_.add(report, tokens);
    in_step_ = false;
}

void Recorder::Impl::finish() {
    if (finished_) {
        return;
    }
    queue_->cut();
    queue_->drain();
    finished_ = true;
    if (run_log_.n_steps() == 0) {
        queue_.reset();
        npz_.reset();
        file_.reset();
        log(LogLevel::warn, concat(printable(params_.path), ": no step was completed, so nothing was recorded"));
        return;
    }
    const int64_t S = run_log_.n_steps();
    const int64_t T = run_log_.n_positions();
    npz_->add("tokens.npy", array_member({S + 1, T}, run_log_.tokens()));
    npz_->add("unmask_step.npy", array_member({T}, run_log_.unmask_step()));
    npz_->add("confidence.npy", array_member({S, T}, run_log_.confidence()));
    npz_->add("meta.json", meta_.text(run_log_.sequence(), S, steps_, !in_step_ && !stopped_));
    npz_->finish();
    file_->commit();
    if (n_overflow_ > 0) {
        log(LogLevel::warn, concat(printable(params_.path), ": ", n_overflow_,
                                   " values are too large for f16 and were recorded as infinite; f32 holds them"));
    }
}

Recorder::Recorder(const RecordParams & params, const ModelInfo & info, const Vocab & vocab, const RecordedRun & run)
    : impl_(std::make_unique<Impl>(params, info, vocab, run)) {}

Recorder::~Recorder() = default;

uint64_t Recorder::predicted_size() const { return impl_->predicted_size(); }

void Recorder::prepare(int32_t step, ForwardRequest & request) { impl_->prepare(step, request); }

void Recorder::end_step(const StepReport & report, const std::vector<int32_t> & tokens) {
    impl_->end_step(report, tokens);
}

void Recorder::attach(GenerateParams & params) {
    params.on_forward = [this, next = params.on_forward](int32_t step, ForwardRequest & request) {
        prepare(step, request);
        if (next) {
            next(step, request);
        }
    };
    params.on_step = [this, next = params.on_step](const StepReport & report, const std::vector<int32_t> & tokens) {
        end_step(report, tokens);
        impl_->set_stopped(true); // unless it returns, and says to go on
        const bool go_on = !next || next(report, tokens);
        impl_->set_stopped(!go_on);
        return go_on;
    };
}

void Recorder::finish() { impl_->finish(); }

} // namespace buoy
