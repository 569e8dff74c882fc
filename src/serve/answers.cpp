#include "serve/answers.h"

#include "buoy/message.h"
#include "buoy/step-count.h"
#include "serve/http.h"
#include "serve/settings.h"

#include <algorithm>
#include <deque>
#include <limits>

namespace buoy::serve {

namespace {

constexpr size_t pending_max = 64 << 20;                      // bytes that wait for a slow reader
constexpr auto   look_every  = std::chrono::milliseconds(20); // whether the client is still there

size_t bytes_of(const AnswerEvent & event) {
    size_t n = sizeof(event) + event.added.size() + event.whole.size();
    if (event.frame) {
        n += event.frame->tokens.size() * 4 + event.frame->text.size() +
             (event.frame->report.committed.size() + event.frame->report.confidence.size()) * 8;
    }
    return n;
}

} // namespace

// What both threads see.
struct Answers::Shared {
    std::mutex              mutex;
    std::condition_variable changed;
    std::deque<AnswerEvent> events;
    size_t                  n_pending = 0; // bytes
    size_t                  n_ended   = 0;
    bool                    cancelled = false;
    bool                    too_slow  = false;
    std::exception_ptr      error;
    std::vector<Answer>     answers;

    // of a comparison
    std::optional<Generation> edited, unedited;
    std::string               unedited_text;

    void push(AnswerEvent event) {
        {
            const std::lock_guard lock(mutex);
            n_pending += bytes_of(event);
            // a reader who is behind gets text at once, and only the last of texts that replace each other
            if (!events.empty() && events.back().index == event.index && !events.back().frame && !event.frame) {
                n_pending -= events.back().whole.size();
                events.back().added += event.added;
                events.back().whole = std::move(event.whole);
                events.back().ended = event.ended;
            } else {
                events.push_back(std::move(event));
            }
            too_slow = too_slow || n_pending > pending_max;
        }
        changed.notify_one();
    }
};

Answers::Answers(const ServedModel & model, CompletionRequest request, Runs & runs)
    : model_(model), request_(std::move(request)), shared_(std::make_shared<Shared>()),
      deadline_(std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                                       std::chrono::duration<double>(model.limits.seconds))) {
    shared_->answers.resize(request_.answer_count());
    for (const Prompt & prompt : request_.prompts) {
        const int64_t n = step_count_max(model_.info, prompt.tokens, request_.params);
        totals_.push_back(static_cast<int32_t>(std::min<int64_t>(n, std::numeric_limits<int32_t>::max())));
    }
    if (request_.attention.is_used()) {
        attention_ = std::make_shared<AttentionRun>(model_, request_.attention, request_.prompts[0], request_.params,
                                                    totals_[0], runs);
    }
    for (size_t index = 0; index < request_.answer_count(); index++) {
        jobs_.push_back(make_job(index));
    }
    if (request_.attention.compare) {
        jobs_.push_back(make_unedited_job());
    }
}

Answers::~Answers() { cancel(); }

const Prompt & Answers::prompt(size_t index) const {
    return request_.prompts[index / static_cast<size_t>(request_.n_answers)];
}

int32_t Answers::step_total(size_t index) const { return totals_[index / static_cast<size_t>(request_.n_answers)]; }

const Answer & Answers::answer(size_t index) const { return shared_->answers[index]; }

JobPtr Answers::make_job(size_t index) {
    const auto job  = std::make_shared<Job>();
    const auto text = std::make_shared<AnswerText>(model_, prompt(index), request_.params, request_.stop);
    job->prompt     = prompt(index).tokens;
    job->params     = request_.params;
    job->params.seed += index % static_cast<size_t>(request_.n_answers);
    const bool streams = request_.stream, diffusing = request_.diffusing, frames = request_.frames;
    job->params.on_step = [shared = shared_, text, attention = attention_, n_final = job->n_final, index, streams,
                           diffusing, frames](const StepReport & report, const std::vector<int32_t> & tokens) {
        AnswerEvent event;
        event.index = index;
        event.added = text->advance(tokens, *n_final);
        if (diffusing || frames) {
            event.whole = text->whole(tokens);
        }
        if (frames) {
            event.frame =
                Frame{report, text->answer(tokens), event.whole, attention ? attention->take_frame() : std::nullopt};
        }
        if (streams && (!event.added.empty() || diffusing || frames)) {
            shared->push(std::move(event));
        }
        return !text->is_stopped();
    };
    if (attention_) {
        attention_->attach(job->params);
    }
    const uint64_t seed    = job->params.seed;
    const bool     compare = request_.attention.compare;
    job->done = [shared = shared_, text, attention = attention_, index, seed, compare](Generation         generation,
                                                                                       std::exception_ptr error) {
        AnswerEvent event;
        event.index = index;
        event.ended = true;
        if (!error) {
            event.added = text->finish(generation.sequence);
            event.whole = text->text();
        }
        {
            const std::lock_guard lock(shared->mutex);
            Answer &              answer = shared->answers[index];
            answer.text                  = text->text();
            answer.finish_reason         = text->is_stopped() || text->is_ended() ? "stop" : "length";
            answer.stop_text             = text->stop_text();
            answer.n_tokens              = text->n_tokens();
            answer.seed                  = seed;
            answer.n_steps               = static_cast<int32_t>(generation.steps.size());
            answer.n_forward             = generation.n_forward;
            answer.prompt_ms             = generation.prompt_ms;
            answer.decode_ms             = generation.decode_ms;
            shared->error                = error ? error : shared->error;
            if (compare) {
                shared->edited = generation;
            }
            shared->cancelled = shared->cancelled || (generation.stopped && !text->is_stopped());
        }
        shared->push(std::move(event));
    };
    return job;
}

// The same answer without the edits, for a comparison. It has no events but its end.
JobPtr Answers::make_unedited_job() {
    const auto job      = std::make_shared<Job>();
    const auto text     = std::make_shared<AnswerText>(model_, prompt(0), request_.params, request_.stop);
    job->prompt         = prompt(0).tokens;
    job->params         = request_.params;
    job->params.on_step = [text, n_final = job->n_final](const StepReport &, const std::vector<int32_t> & tokens) {
        text->advance(tokens, *n_final);
        return !text->is_stopped();
    };
    job->done = [shared = shared_, text, index = jobs_.size()](Generation generation, std::exception_ptr error) {
        {
            const std::lock_guard lock(shared->mutex);
            text->finish(generation.sequence);
            shared->error         = error ? error : shared->error;
            shared->cancelled     = shared->cancelled || (generation.stopped && !text->is_stopped());
            shared->unedited      = std::move(generation);
            shared->unedited_text = text->text();
        }
        AnswerEvent event;
        event.index = index;
        event.ended = true;
        shared->push(std::move(event));
    };
    return job;
}

std::string Answers::run_id() const { return attention_ ? attention_->run_id() : ""; }

Json Answers::edit_json() const {
    Json json = attention_ ? attention_->edit_json() : Json(nullptr);
    if (!shared_->edited || !shared_->unedited) {
        return json;
    }
    const EditComparison c         = compare_runs(*shared_->unedited, *shared_->edited);
    json["unedited"]               = {{"text", shared_->unedited_text}, {"tokens", shared_->unedited->tokens}};
    json["changed_tokens"]         = c.n_changed;
    json["first_changed_position"] = c.n_changed > 0 ? Json(c.first_changed) : Json(nullptr);
    json["same_text"]              = shared_->unedited_text == shared_->answers[0].text;
    if (c.n_scored > 0) {
        json["confidence"] = {{"unedited_mean", c.confidence_unedited},
                              {"edited_mean", c.confidence_edited},
                              {"mean_abs_change", c.confidence_change},
                              {"scored", c.n_scored}};
    }
    return json;
}

void Answers::submit(Scheduler & scheduler) {
    if (jobs_.size() > scheduler.capacity()) {
        throw HttpError(
            {.message = concat("the request has ", jobs_.size(), " answers, and this server computes and queues ",
                               scheduler.capacity(), " at most"),
             .param   = "n"});
    }
    if (!scheduler.submit(jobs_)) {
        throw queue_full();
    }
}

void Answers::cancel() {
    for (const JobPtr & job : jobs_) {
        job->cancelled = true;
    }
    const std::lock_guard lock(shared_->mutex);
    shared_->cancelled = true;
    shared_->changed.notify_one();
}

void Answers::throw_failure() const {
    if (shared_->error) {
        try {
            std::rethrow_exception(shared_->error);
        } catch (const Error & error) {
            const bool wrong = error.kind() == ErrorKind::request;
            throw HttpError({.status  = wrong ? 400 : 500,
                             .type    = wrong ? "invalid_request_error" : "server_error",
                             .message = in_fields(error.what())});
        }
    }
    if (shared_->too_slow) {
        throw HttpError({.status  = 408,
                         .type    = "timeout_error",
                         .message = "the answer was read too slowly",
                         .code    = "slow_reader"});
    }
    if (shared_->cancelled) {
        throw HttpError(
            {.status = 409, .type = "cancelled_error", .message = "the request was cancelled", .code = "cancelled"});
    }
}

AnswerEvent Answers::take_event() {
    AnswerEvent event = std::move(shared_->events.front());
    shared_->events.pop_front();
    shared_->n_pending =
        shared_->events.empty() ? 0 : shared_->n_pending - std::min(shared_->n_pending, bytes_of(event));
    shared_->n_ended += event.ended ? 1 : 0;
    return event;
}

std::optional<AnswerEvent> Answers::next(const std::function<bool()> & is_gone) {
    std::unique_lock lock(shared_->mutex);
    while (true) {
        throw_failure();
        if (!shared_->events.empty()) {
            AnswerEvent event = take_event();
            if (event.index < shared_->answers.size()) {
                return event;
            }
        } else if (shared_->n_ended == jobs_.size()) {
            break;
        } else if (std::chrono::steady_clock::now() > deadline_) {
            throw HttpError({.status  = 504,
                             .type    = "timeout_error",
                             .message = concat("the answer took longer than ", model_.limits.seconds, " seconds"),
                             .code    = "timeout"});
        } else if (is_gone()) {
            throw HttpError({.status = 499, .type = "cancelled_error", .message = "the client is gone"});
        } else {
            shared_->changed.wait_for(lock, look_every);
        }
    }
    lock.unlock();
    if (attention_) {
        attention_->finish(); // here, so that no other answer waits for the disk
    }
    return {};
}

} // namespace buoy::serve
