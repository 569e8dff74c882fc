#include "buoy/parse.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>

using namespace buoy;

namespace {

struct CommaPoint : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
};

// Whatever streams are made meanwhile write and read a decimal comma.
struct CommaLocale {
    CommaLocale() : before(std::locale::global(std::locale(std::locale::classic(), new CommaPoint))) {}
    ~CommaLocale() { std::locale::global(before); }
    std::locale before;
};

} // namespace

TEST_CASE("a number is the whole text") {
    CHECK(parse_number<int32_t>("-12") == -12);
    CHECK(parse_number<int64_t>("9000000000") == 9000000000);
    CHECK(parse_number<float>("0.25") == 0.25f);
    CHECK(parse_number<float>("-1e-3") == -1e-3f);
    CHECK(parse_number<float>(".5") == 0.5f);
    CHECK(parse_number<float>("2.E+1") == 20.0f);
    CHECK(parse_number<float>("-inf") == -INFINITY);
    CHECK(parse_number<double>("0.1") == 0.1);
    CHECK(std::isnan(parse_number<float>("nan").value_or(0.0f)));
    for (const char * text : {"", "-", "+1", "--1", "-+1", " 1", "1 ", "1x", "0x10", "1,5", "1e", ".", "1.2.3", "e5",
                              "Infinity", "1e99999", "1-2", "1e5e5"}) {
        CAPTURE(text);
        CHECK_FALSE(parse_number<float>(text).has_value());
    }
    for (const char * text : {"", "1.0", "1e3", "+1", " 1", "99999999999"}) {
        CAPTURE(text);
        CHECK_FALSE(parse_number<int32_t>(text).has_value());
    }
}

TEST_CASE("a locale with a decimal comma changes no number") {
    const CommaLocale comma;
    CHECK(parse_number<float>("0.25") == 0.25f);
    CHECK_FALSE(parse_number<float>("0,25").has_value());
}
