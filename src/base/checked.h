#pragma once

#include <cstdint>
#include <limits>
#include <optional>

// Arithmetic for numbers that come from files: no value instead of a wrapped one.

namespace buoy {

constexpr std::optional<uint64_t> checked_add(uint64_t a, uint64_t b) {
    if (a > std::numeric_limits<uint64_t>::max() - b) {
        return std::nullopt;
    }
    return a + b;
}

constexpr std::optional<uint64_t> checked_mul(uint64_t a, uint64_t b) {
    if (b != 0 && a > std::numeric_limits<uint64_t>::max() / b) {
        return std::nullopt;
    }
    return a * b;
}

// Rounds up to a multiple of alignment, which must not be 0 (then: no value).
constexpr std::optional<uint64_t> checked_pad(uint64_t size, uint64_t alignment) {
    if (alignment == 0) {
        return std::nullopt;
    }
    const uint64_t rest = size % alignment;
    return rest == 0 ? std::optional<uint64_t>(size) : checked_add(size, alignment - rest);
}

} // namespace buoy
