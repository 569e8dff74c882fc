#include "observe/write-queue.h"

#include <algorithm>
#include <utility>

namespace buoy {

WriteQueue::WriteQueue(NpzWriter & npz, uint64_t limit) : npz_(npz), limit_(limit), thread_([this] { run(); }) {}

WriteQueue::~WriteQueue() {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

void WriteQueue::reserve(uint64_t size) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return error_ || n_waiting_ == 0 || n_waiting_ + size <= limit_; });
    n_waiting_ += size;
    peak_ = std::max(peak_, n_waiting_);
}

void WriteQueue::enqueue(Item item) {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (error_) {
            return;
        }
        items_.push_back(std::move(item));
    }
    changed_.notify_all();
}

void WriteQueue::push(std::string name, uint64_t size, const std::function<std::string()> & make) {
    reserve(size);
    try {
        enqueue({Item::Kind::member, std::move(name), make()});
    } catch (...) { // nothing will be written, so nothing would give the room back
        const std::lock_guard<std::mutex> lock(mutex_);
        n_waiting_ -= size;
        throw;
    }
}

void WriteQueue::keep() { enqueue({Item::Kind::keep, {}, {}}); }

void WriteQueue::cut() { enqueue({Item::Kind::cut, {}, {}}); }

void WriteQueue::check() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (error_) {
        std::rethrow_exception(error_);
    }
}

void WriteQueue::drain() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return error_ || (items_.empty() && !writing_); });
    if (error_) {
        std::rethrow_exception(error_);
    }
}

uint64_t WriteQueue::peak() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return peak_;
}

void WriteQueue::write(const Item & item) {
    switch (item.kind) {
        case Item::Kind::member: npz_.add(item.name, item.data); break;
        case Item::Kind::keep: kept_ = npz_.size(); break;
        case Item::Kind::cut: npz_.truncate_to(kept_); break;
    }
}

void WriteQueue::run() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
        changed_.wait(lock, [&] { return stop_ || !items_.empty(); });
        if (stop_ || error_) {
            return;
        }
        Item item = std::move(items_.front());
        items_.pop_front();
        writing_ = true;
        lock.unlock();
        const uint64_t     size = item.data.size();
        std::exception_ptr error;
        try {
            write(item);
            item = {}; // frees its memory before the room is given away
        } catch (...) {
            error = std::current_exception();
        }
        lock.lock();
        writing_ = false;
        n_waiting_ -= size;
        if (error) {
            error_ = error;
            items_.clear();
        }
        changed_.notify_all();
    }
}

} // namespace buoy
