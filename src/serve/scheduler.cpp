#include "serve/scheduler.h"

#include "decode/decode-batch.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

namespace buoy::serve {

namespace {

Generation stopped_generation(const Job & job) {
    Generation generation;
    generation.prompt  = job.prompt;
    generation.stopped = true;
    return generation;
}

// Parameters that also end the job when it is cancelled.
GenerateParams watched(const JobPtr & job, const DecodeBatch & batch, size_t id) {
    GenerateParams params = job->params;
    params.on_step        = [job, &batch, id](const StepReport & step, const std::vector<int32_t> & tokens) {
        *job->n_final      = batch.n_final(id);
        const bool goes_on = !job->params.on_step || job->params.on_step(step, tokens);
        return goes_on && !job->cancelled;
    };
    params.on_prompt = [job](float) { return !job->cancelled; };
    return params;
}

} // namespace

SchedulerState & SchedulerState::operator+=(const SchedulerState & other) {
    n_running += other.n_running;
    n_waiting += other.n_waiting;
    n_passes += other.n_passes;
    n_steps += other.n_steps;
    n_prompt += other.n_prompt;
    n_generated += other.n_generated;
    n_failed += other.n_failed;
    seconds += other.seconds;
    return *this;
}

Scheduler::Scheduler(Context & context, size_t n_queue)
    : context_(context), n_queue_(n_queue), thread_([this] { run(); }) {}

Scheduler::~Scheduler() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

size_t Scheduler::room() const {
    const auto n_places = static_cast<size_t>(context_.params().n_sequences);
    // what can begin at once does not wait
    const size_t n_most = n_queue_ + n_places - std::min(state_.n_running, n_places);
    return stopping_ ? 0 : n_most - std::min(state_.n_waiting, n_most);
}

bool Scheduler::is_full() const {
    const std::lock_guard lock(mutex_);
    return room() == 0;
}

bool Scheduler::submit(std::span<const JobPtr> jobs) {
    {
        const std::lock_guard lock(mutex_);
        if (jobs.size() > room()) {
            return false;
        }
        waiting_.emplace_back(jobs.begin(), jobs.end());
        state_.n_waiting += jobs.size();
    }
    changed_.notify_all();
    return true;
}

bool Scheduler::call(const std::function<void(Context & context)> & work) {
    std::future<void> done;
    {
        const std::lock_guard lock(mutex_);
        if (stopping_ || calls_.size() >= std::max<size_t>(n_queue_, 1)) {
            return false;
        }
        calls_.emplace_back([this, &work] { work(context_); });
        done = calls_.back().get_future();
    }
    changed_.notify_all();
    done.get();
    return true;
}

bool Scheduler::run_call() {
    std::packaged_task<void()> task;
    {
        const std::lock_guard lock(mutex_);
        if (calls_.empty()) {
            return false;
        }
        task = std::move(calls_.front());
        calls_.pop_front();
    }
    task();
    return true;
}

SchedulerState Scheduler::state() const {
    const std::lock_guard lock(mutex_);
    return state_;
}

// Takes a job out of the queue: a cancelled one, wherever it stands, else the next one of the request whose turn it is.
JobPtr Scheduler::take_waiting(const std::function<bool(const Job &)> & has_room) {
    const std::lock_guard lock(mutex_);
    const auto            taken = [&](std::deque<Request>::iterator request, Request::iterator job) {
        JobPtr out = *job;
        request->erase(job);
        state_.n_waiting--;
        Request rest = std::move(*request);
        waiting_.erase(request);
        if (!rest.empty()) {
            waiting_.push_back(std::move(rest)); // the others come first
        }
        return out;
    };
    for (auto request = waiting_.begin(); request != waiting_.end(); ++request) {
        const auto job = std::find_if(request->begin(), request->end(),
                                      [&](const JobPtr & one) { return one->cancelled || stopping_; });
        if (job != request->end()) {
            (*job)->cancelled = true;
            return taken(request, job);
        }
    }
    if (waiting_.empty() || !has_room(*waiting_.front().front())) {
        return nullptr;
    }
    state_.n_running++;
    return taken(waiting_.begin(), waiting_.front().begin());
}

void Scheduler::run() {
    using Clock = std::chrono::steady_clock;
    DecodeBatch              batch(context_, DecodeBatch::Reuse::prefixes);
    std::map<size_t, JobPtr> jobs;
    size_t                   n_started = 0;
    const auto               end       = [&](const JobPtr & job, Generation generation, std::exception_ptr error) {
        {
            const std::lock_guard lock(mutex_);
            state_.n_running--;
            state_.n_failed += error ? 1 : 0;
            state_.n_generated += generation.tokens.size();
        }
        job->done(std::move(generation), error);
    };
    while (true) {
        while (const JobPtr job = take_waiting([&](const Job & one) { return batch.has_room(one.params); })) {
            if (job->cancelled) {
                job->done(stopped_generation(*job), nullptr);
                continue;
            }
            try {
                batch.start(n_started, job->prompt, watched(job, batch, n_started));
                jobs.emplace(n_started++, job);
                const std::lock_guard lock(mutex_);
                state_.n_prompt += job->prompt.size();
            } catch (...) {
                end(job, {}, std::current_exception());
            }
        }
        const bool called = run_call();
        if (batch.size() == 0) {
            std::unique_lock lock(mutex_);
            if (stopping_ && waiting_.empty() && calls_.empty()) {
                return;
            }
            changed_.wait(lock, [&] { return called || stopping_ || !waiting_.empty() || !calls_.empty(); });
            continue;
        }
        const auto   begin = Clock::now();
        const size_t n     = batch.size();
        for (DecodeBatch::Ended & ended : batch.step()) {
            const JobPtr job = jobs.at(ended.id);
            jobs.erase(ended.id);
            end(job, std::move(ended.generation), ended.error);
        }
        const std::lock_guard lock(mutex_);
        state_.n_passes++;
        state_.n_steps += n;
        state_.seconds += std::chrono::duration<double>(Clock::now() - begin).count();
        if (stopping_) {
            for (const auto & [id, job] : jobs) {
                job->cancelled = true;
            }
        }
    }
}

} // namespace buoy::serve
