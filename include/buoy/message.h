#pragma once

#include "buoy/error.h"

#include <cstddef>
#include <locale>
#include <sstream>
#include <string>
#include <string_view>

// How messages are written, for the library and for programs that want theirs to read alike. A message is one line. It names settings
// as the parameter structs do, in backticks, `n_ctx`: a program that sets them by flags can say which.

namespace buoy {

// Joins its arguments into one string.
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

// Text from a file or a user, safe for one line on a terminal: control characters and invalid UTF-8 become \xNN,
// and what is longer than length_max bytes is cut.
std::string printable(std::string_view text, size_t length_max = 4096);

// The same between single quotes and shorter, for keys, names and values in messages. Not called quoted: std::quoted would be
// found by argument-dependent lookup wherever <iomanip> is included.
std::string in_quotes(std::string_view text, size_t length_max = 96);

} // namespace buoy
