#pragma once

#include <functional>
#include <string>

namespace buoy {

enum class LogLevel {
    debug,
    info,
    notice, // worth a line to everybody
    warn,
    error,
};

// The library never prints; whoever wants its messages passes a callback.
using LogCallback = std::function<void(LogLevel, const std::string &)>;

// Called with the share that is done, 0 to 1; returning false cancels.
using ProgressCallback = std::function<bool(float)>;

} // namespace buoy
