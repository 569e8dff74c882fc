#pragma once

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

} // namespace buoy
