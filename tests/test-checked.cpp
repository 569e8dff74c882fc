#include "base/checked.h"

#include <doctest/doctest.h>

using namespace buoy;

constexpr uint64_t largest = ~uint64_t{0};

// The functions are constexpr: a wrong answer does not compile.
static_assert(checked_add(2, 3) == 5);
static_assert(checked_mul(6, 7) == 42);
static_assert(checked_pad(33, 32) == 64);

TEST_CASE("checked add gives no value where it would wrap") {
    CHECK(checked_add(largest, 0) == largest);
    CHECK(checked_add(largest - 1, 1) == largest);
    CHECK_FALSE(checked_add(largest, 1).has_value());
    CHECK_FALSE(checked_add(1, largest).has_value());
}

TEST_CASE("checked multiply gives no value where it would wrap") {
    CHECK(checked_mul(0, largest) == 0);
    CHECK(checked_mul(largest, 0) == 0);
    CHECK(checked_mul(largest, 1) == largest);
    CHECK(checked_mul(uint64_t{1} << 32, (uint64_t{1} << 32) - 1) == largest - ((uint64_t{1} << 32) - 1));
    CHECK_FALSE(checked_mul(uint64_t{1} << 32, uint64_t{1} << 32).has_value());
    CHECK_FALSE(checked_mul(largest, 2).has_value());
}

TEST_CASE("checked pad rounds up, and gives no value where that would wrap") {
    CHECK(checked_pad(0, 32) == 0);
    CHECK(checked_pad(1, 32) == 32);
    CHECK(checked_pad(32, 32) == 32);
    CHECK(checked_pad(5, 3) == 6);
    CHECK(checked_pad(largest - 31, 32) == largest - 31);
    CHECK_FALSE(checked_pad(largest, 32).has_value());
    CHECK_FALSE(checked_pad(5, 0).has_value());
}
