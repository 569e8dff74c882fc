#pragma once

#include "io/npz-writer.h"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace buoy {

// Members on their way to the disk: a thread of its own writes them. At most `limit` bytes wait, or one member that is larger.
// After an error of the thread what is pushed is dropped, and check() and drain() throw it.
class WriteQueue {
public:
    WriteQueue(NpzWriter & npz, uint64_t limit);
    ~WriteQueue(); // what still waits is dropped
    WriteQueue(const WriteQueue &)             = delete;
    WriteQueue & operator=(const WriteQueue &) = delete;

    // Waits for room for that many bytes, and only then has them made.
    void push(std::string name, uint64_t size, const std::function<std::string()> & make);

    void keep(); // what was pushed so far stays
    void cut();  // what was pushed since keep() is taken back

    void check();
    void drain(); // waits until everything is written

    uint64_t peak() const; // bytes that waited at the same time

private:
    struct Item {
        enum class Kind { member, keep, cut };

        Kind        kind = Kind::member;
        std::string name;
        std::string data;
    };

    void reserve(uint64_t size);
    void enqueue(Item item);
    void run();
    void write(const Item & item);

    NpzWriter &             npz_;
    const uint64_t          limit_;
    mutable std::mutex      mutex_;
    std::condition_variable changed_;
    std::deque<Item>        items_;
    uint64_t                n_waiting_ = 0; // bytes, reserved ones included
    uint64_t                peak_      = 0;
    bool                    writing_   = false;
    bool                    stop_      = false;
    std::exception_ptr      error_;
    uint64_t                kept_ = 0; // bytes of the archive; the thread's own
    std::thread             thread_;
};

} // namespace buoy
