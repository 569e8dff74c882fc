#pragma once

#include <cstdint>

namespace buoy {

// Random numbers as a function of what they are for, so that a run does not depend on the order in which they are drawn:
// the same seed gives the same text for any number of threads and any cache mode.
class RandomSource {
public:
    explicit RandomSource(uint64_t seed) : seed_(seed) {}

    // The numbers of one step and position.
    class Stream {
    public:
        // Strictly between 0 and 1.
        double uniform(uint64_t item) const {
            return (static_cast<double>(mix(start_ + item * 0x9e3779b97f4a7c15ull) >> 11) + 0.5) * 0x1.0p-53;
        }

    private:
        friend class RandomSource;
        explicit Stream(uint64_t start) : start_(start) {}

        uint64_t start_;
    };

    Stream stream(uint64_t step, uint64_t position) const { return Stream(mix(mix(mix(seed_) + step) + position)); }
    double uniform(uint64_t step, uint64_t position, uint64_t item = 0) const {
        return stream(step, position).uniform(item);
    }

private:
    // the finaliser of splitmix64
    static uint64_t mix(uint64_t z) {
        z += 0x9e3779b97f4a7c15ull;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        return z ^ (z >> 31);
    }

    uint64_t seed_;
};

} // namespace buoy
