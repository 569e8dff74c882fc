#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace buoy::figure {

// Values beyond this are drawn as this, so that differences stay finite.
constexpr double value_max = 1e300;

struct Range {
    double low  = 1; // low > high: nothing in it yet
    double high = 0;

    bool   empty() const { return low > high; }
    void   include(double value); // ignores what is not finite
    void   include(const std::vector<double> & values);
    double position(double value) const; // 0 at low, 1 at high
};

// The range with some width, whatever it was: [0, 1] if empty, around a single value otherwise.
Range widened(const Range & range);

struct Ticks {
    std::vector<double>      values;
    std::vector<std::string> labels;
};

struct TickStyle {
    bool percent = false; // 0.5 is 50%
    bool whole   = false; // whole numbers only
};

// At most count_max multiples of 1, 2 or 5 times a power of ten that lie in the range, all with the same decimals.
Ticks nice_ticks(const Range & range, size_t count_max, const TickStyle & style = {});

// For a logarithmic scale: powers of ten, with their double and fivefold where the range is short.
Ticks log_ticks(const Range & range, size_t count_max, const TickStyle & style = {});

// The range of an axis with about count_max ticks: up to the next tick where that is near, else a little more than the values.
Range framed(const Range & range, size_t count_max, const TickStyle & style = {});

// Which of `count` labels, `gap` apart, to show so that each has `room`: every n-th, n being 1, 2 or 5 times a power of ten.
std::vector<size_t> thin_labels(size_t count, double gap, double room);

// Three significant digits, for descriptions.
std::string short_number(double value);

} // namespace buoy::figure
