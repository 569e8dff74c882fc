#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>

namespace buoy::test {

using Random = std::mt19937_64;

inline uint64_t below(Random & random, uint64_t limit) { return random() % limit; }

// A number from the environment, so that a fuzz test can search further than CI does.
inline uint64_t setting(const char * name, uint64_t fallback) {
    const char * text = std::getenv(name);
    return text == nullptr ? fallback : std::strtoull(text, nullptr, 10);
}

} // namespace buoy::test
