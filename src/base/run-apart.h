#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace buoy {

// What a process that may die is allowed.
struct ApartLimits {
    unsigned cpu_seconds = 2;          // of its own time, so that a busy machine changes nothing
    uint64_t memory      = 512u << 20; // beyond what it begins with
    size_t   result_max  = 64u << 20;  // bytes that it returns
};

struct ApartResult {
    enum class End {
        done,      // text is what the work returned
        failed,    // text is what it threw
        too_long,  // it took too much time
        too_large, // … or memory, or returned too much
        crashed,
    };
    End         end = End::crashed;
    std::string text;
};

// Calls work in a forked copy of this process and waits for what it returns. For code that is not ours, on data that nobody vouches for: it
// may recurse without end, run for ever or fill the memory there, and nothing of that reaches us. The copy has one thread, so the work
// must not wait for others; what it prints goes nowhere, what it changes is lost.
ApartResult run_apart(const std::function<std::string()> & work, const ApartLimits & limits = {});

} // namespace buoy
