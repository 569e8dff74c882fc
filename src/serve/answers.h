#pragma once

#include "serve/answer-text.h"
#include "serve/attention-run.h"
#include "serve/scheduler.h"

#include <chrono>

namespace buoy::serve {

// A step of an answer, as diffusion_frames tells it.
struct Frame {
    StepReport                    report;
    std::vector<int32_t>          tokens; // of the answer
    std::string                   text;
    std::optional<AttentionFrame> attention;
};

// What an answer came to.
struct Answer {
    std::string text;
    std::string finish_reason; // stop, length
    std::string stop_text;     // that ended it
    int32_t     n_tokens  = 0;
    uint64_t    seed      = 0;
    int32_t     n_steps   = 0;
    int64_t     n_forward = 0;
    double      prompt_ms = 0.0;
    double      decode_ms = 0.0;
};

// News of one answer for the connection that waits for it.
struct AnswerEvent {
    size_t               index = 0; // of the answer
    std::string          added;     // text that is final now
    std::string          whole;     // the text so far, of a request that is `diffusing`
    std::optional<Frame> frame;
    bool                 ended = false;
};

// One request while it is answered: its jobs on the scheduler's thread, and what they tell the connection's. Jobs that run when it goes
// away are cancelled.
class Answers {
public:
    // Throws HttpError or Error where what is asked about attention is not there.
    Answers(const ServedModel & model, CompletionRequest request, Runs & runs);
    ~Answers();
    Answers(const Answers &)             = delete;
    Answers & operator=(const Answers &) = delete;

    // Throws HttpError where too many wait already.
    void submit(Scheduler & scheduler);

    // Waits for what comes next; none: all answers are there. Throws HttpError where one failed, was cancelled, took too long, or where
    // nobody is there any more to hear it.
    std::optional<AnswerEvent> next(const std::function<bool()> & is_gone);

    void cancel(); // from any thread; next() then throws

    const CompletionRequest & request() const { return request_; }
    const Prompt &            prompt(size_t index) const;
    const Answer &            answer(size_t index) const;     // of one that ended
    int32_t                   step_total(size_t index) const; // at most

    std::string run_id() const;    // of the recording; empty: there is none
    Json        edit_json() const; // what the edits did, of answers that ended; null without any

private:
    struct Shared;

    JobPtr      make_job(size_t index);
    JobPtr      make_unedited_job();
    void        throw_failure() const; // with the lock
    AnswerEvent take_event();          // with the lock

    const ServedModel &                         model_;
    CompletionRequest                           request_;
    std::shared_ptr<Shared>                     shared_;
    std::shared_ptr<AttentionRun>               attention_; // of the first answer
    std::vector<JobPtr>                         jobs_;
    std::vector<int32_t>                        totals_;
    const std::chrono::steady_clock::time_point deadline_;
};

} // namespace buoy::serve
