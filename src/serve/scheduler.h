#pragma once

#include "buoy/context.h"
#include "buoy/generate.h"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace buoy::serve {

// One sequence to be generated.
struct Job {
    std::vector<int32_t> prompt;
    GenerateParams       params; // what they call is called on the scheduler's thread

    // Called once, on the scheduler's thread. error: what it failed with. A job that is cancelled before it begins has an empty
    // generation that is stopped.
    std::function<void(Generation generation, std::exception_ptr error)> done;

    // For what the parameters call after a step: positions from the beginning that no later step changes.
    const std::shared_ptr<int32_t> n_final = std::make_shared<int32_t>(0);

    std::atomic<bool> cancelled = false; // it ends after the step that is being computed
};

using JobPtr = std::shared_ptr<Job>;

// What is going on, for /slots and /metrics.
struct SchedulerState {
    size_t   n_running   = 0;
    size_t   n_waiting   = 0;
    uint64_t n_passes    = 0; // of the batch, since the beginning
    uint64_t n_steps     = 0; // of sequences
    uint64_t n_prompt    = 0; // tokens of jobs that began
    uint64_t n_generated = 0; // tokens of jobs that ended
    uint64_t n_failed    = 0;
    double   seconds     = 0.0; // computing

    SchedulerState & operator+=(const SchedulerState & other);
};

// Generates what requests ask for on a thread of its own: as many jobs at a time as the context has sequences, the next step of each in
// one pass. Requests take turns when a place is free, however many jobs each of them has.
class Scheduler {
public:
    Scheduler(Context & context, size_t n_queue);
    ~Scheduler(); // ends what runs after its current step
    Scheduler(const Scheduler &)             = delete;
    Scheduler & operator=(const Scheduler &) = delete;

    size_t capacity() const {
        return n_queue_ + static_cast<size_t>(context_.params().n_sequences);
    } // running and waiting

    bool is_full() const; // not a single job more may wait

    // All jobs of a request, or none: false where that many more may not wait.
    bool submit(std::span<const JobPtr> jobs);

    // A pass of its own, between those of the jobs: the caller waits for it. False where too much waits already. What the work throws
    // comes out here.
    bool call(const std::function<void(Context & context)> & work);

    SchedulerState state() const;

private:
    using Request = std::deque<JobPtr>; // that did not begin

    void   run();
    size_t room() const; // jobs that may be submitted; with the lock
    bool   run_call();   // the next one; false: there is none
    JobPtr take_waiting(const std::function<bool(const Job &)> & has_room);

    Context &    context_;
    const size_t n_queue_;

    mutable std::mutex                     mutex_;
    std::condition_variable                changed_;
    std::deque<Request>                    waiting_;
    std::deque<std::packaged_task<void()>> calls_;
    SchedulerState                         state_;
    bool                                   stopping_ = false;

    std::thread thread_; // last: it uses all of the above
};

} // namespace buoy::serve
