#pragma once

#include "buoy/context.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace buoy::test {

// A checkpoint with what its authors' code computed from it (tests/oracles).
struct Oracle {
    explicit Oracle(const std::string & name);

    std::string    dir;
    nlohmann::json expected; // expected.json

    bool                 has(const std::string & tensor) const;
    std::vector<int64_t> shape(const std::string & tensor) const;
    std::vector<float>   floats(const std::string & tensor) const;
    std::vector<int32_t> ids(const std::string & tensor) const;

    // Every row of input_ids, in blocks of the length that the reference ran with.
    ForwardRequest request() const;
};

// Σ (a − b)² / Σ b²
double nmse(const std::vector<float> & actual, const std::vector<float> & expected);
double max_abs_diff(const std::vector<float> & actual, const std::vector<float> & expected);

// The index of the largest value of each row of n.
std::vector<int32_t> argmax_rows(const std::vector<float> & values, size_t n);

// A request for every row's logits over tokens at positions 0, 1, …
ForwardRequest whole_request(const std::vector<int32_t> & tokens);

} // namespace buoy::test
