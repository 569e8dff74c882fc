#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace buoy {

// Whose fault it is decides the exit code: a wrong request ends with 1, a failure while running with 2.
enum class ErrorKind { request, runtime };

// The one exception of this library. The message is one line that names the culprit, what was expected and what was found.
class Error : public std::runtime_error {
public:
    explicit Error(const std::string & message, ErrorKind kind = ErrorKind::request)
        : std::runtime_error(message), kind_(kind) {}

    ErrorKind kind() const { return kind_; }

private:
    ErrorKind kind_;
};

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
