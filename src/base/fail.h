#pragma once

#include "buoy/error.h"

#include <locale>
#include <sstream>
#include <string>

namespace buoy {

// Joins its arguments into one string, for messages.
template <typename... Args> std::string concat(const Args &... args) {
    std::ostringstream out;
    out.imbue(std::locale::classic());
    (out << ... << args);
    return out.str();
}

template <typename... Args> [[noreturn]] void fail(const Args &... args) { throw Error(concat(args...)); }

template <typename... Args> [[noreturn]] void fail_runtime(const Args &... args) {
    throw Error(concat(args...), ErrorKind::runtime);
}

} // namespace buoy
