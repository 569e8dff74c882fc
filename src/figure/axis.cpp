#include "figure/axis.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <locale>
#include <sstream>

namespace buoy::figure {

namespace {

struct Step {
    int mantissa = 1; // 1, 2 or 5
    int exponent = 0;

    double value() const { return mantissa * std::pow(10.0, exponent); }
    Step   next() const {
          return mantissa == 1 ? Step{2, exponent} : mantissa == 2 ? Step{5, exponent} : Step{1, exponent + 1};
    }
};

// n · 10^exponent in decimal; exact, as it is made of digits.
std::string decimal(long long n, int exponent, bool scientific) {
    std::string digits = std::to_string(std::llabs(n));
    std::string sign   = n < 0 ? "−" : "";
    if (n == 0 && scientific) {
        return "0";
    }
    if (scientific) {
        int power = exponent + static_cast<int>(digits.size()) - 1;
        while (digits.size() > 1 && digits.back() == '0') {
            digits.pop_back();
        }
        if (digits.size() > 1) {
            digits.insert(1, ".");
        }
        return sign + digits +
               (power == 0 ? "" : "e" + std::string(power < 0 ? "−" : "") + std::to_string(std::abs(power)));
    }
    if (exponent >= 0) {
        return sign + digits + std::string(n == 0 ? 0 : static_cast<size_t>(exponent), '0');
    }
    const auto decimals = static_cast<size_t>(-exponent);
    if (digits.size() <= decimals) {
        digits.insert(0, decimals + 1 - digits.size(), '0');
    }
    digits.insert(digits.size() - decimals, ".");
    return sign + digits;
}

Step step_for(const Range & range, size_t count_max, const TickStyle & style) {
    const double span = range.high - range.low;
    Step         step{1, static_cast<int>(std::floor(std::log10(span / static_cast<double>(count_max)))) - 1};
    if (style.whole && step.exponent < 0) {
        step = {1, 0};
    }
    const auto count = [&](const Step & s) {
        return std::floor(range.high / s.value() + 1e-9) - std::ceil(range.low / s.value() - 1e-9) + 1;
    };
    while (count(step) > static_cast<double>(count_max)) {
        step = step.next();
    }
    return step;
}

void add_tick(Ticks & ticks, long long n, const Step & step, const TickStyle & style, bool scientific) {
    const int    shown = step.exponent + (style.percent ? 2 : 0);
    const double scale = std::pow(10.0, std::abs(step.exponent));
    const auto   units = static_cast<double>(n * step.mantissa);
    ticks.values.push_back(step.exponent < 0 ? units / scale : units * scale);
    ticks.labels.push_back(decimal(n * step.mantissa, shown, scientific) + (style.percent ? "%" : ""));
}

} // namespace

void Range::include(double value) {
    if (!std::isfinite(value)) {
        return;
    }
    value = std::clamp(value, -value_max, value_max);
    low   = empty() ? value : std::min(low, value);
    high  = std::max(high, value);
}

void Range::include(const std::vector<double> & values) {
    for (const double value : values) {
        include(value);
    }
}

double Range::position(double value) const { return (std::clamp(value, -value_max, value_max) - low) / (high - low); }

Range widened(const Range & range) {
    if (range.empty()) {
        return {0, 1};
    }
    const double size = std::max(std::abs(range.low), std::abs(range.high));
    if (range.high - range.low > 1e-9 * size && range.high - range.low > 1e-290) {
        return range;
    }
    const double middle = range.low / 2 + range.high / 2;
    const double half   = std::max(size > 1e-280 ? 0.1 * size : 0.5, 1e-280);
    return {middle - half, middle + half};
}

Ticks nice_ticks(const Range & range, size_t count_max, const TickStyle & style) {
    const Range  wide       = widened(range);
    const Step   step       = step_for(wide, std::max<size_t>(count_max, 2), style);
    const auto   first      = static_cast<long long>(std::ceil(wide.low / step.value() - 1e-9));
    const auto   last       = static_cast<long long>(std::floor(wide.high / step.value() + 1e-9));
    const double size       = std::max(std::abs(wide.low), std::abs(wide.high)) * (style.percent ? 100 : 1);
    const int    shown      = step.exponent + (style.percent ? 2 : 0);
    const bool   scientific = size >= 1e6 || shown < -4;

    Ticks ticks;
    for (long long n = first; n <= last; n++) {
        add_tick(ticks, n, step, style, scientific);
    }
    return ticks;
}

Ticks log_ticks(const Range & range, size_t count_max, const TickStyle & style) {
    const int  first   = static_cast<int>(std::floor(std::log10(range.low) + 1e-9));
    const int  last    = static_cast<int>(std::ceil(std::log10(range.high) - 1e-9));
    const int  decades = std::max(1, last - first);
    const auto room    = static_cast<int>(std::max<size_t>(count_max, 2));
    const bool dense   = 3 * decades + 1 <= room;
    const int  stride  = (decades + room - 1) / room;

    Ticks ticks;
    for (int exponent = first; exponent <= last; exponent += stride) {
        for (const int mantissa : {1, 2, 5}) {
            const Step   step{mantissa, exponent};
            const double value = step.value();
            if ((mantissa == 1 || dense) && value >= range.low * (1 - 1e-9) && value <= range.high * (1 + 1e-9)) {
                const int shown = exponent + (style.percent ? 2 : 0);
                add_tick(ticks, 1, step, style, shown < -3 || shown > 5);
            }
        }
    }
    return ticks.values.size() >= 2 ? ticks : nice_ticks(range, count_max, style);
}

Range framed(const Range & range, size_t count_max, const TickStyle & style) {
    const Range  wide  = widened(range);
    const double step  = step_for(wide, std::max<size_t>(count_max, 2), style).value();
    const double near  = 0.5 * step;
    const double pad   = 0.04 * (wide.high - wide.low);
    const double below = std::floor(wide.low / step + 1e-9) * step;
    const double above = std::ceil(wide.high / step - 1e-9) * step;
    return {wide.low - below <= near ? below : wide.low - pad, above - wide.high <= near ? above : wide.high + pad};
}

std::vector<size_t> thin_labels(size_t count, double gap, double room) {
    std::vector<size_t> shown;
    if (count == 0 || !(gap > 0)) {
        return shown;
    }
    Step step;
    while (step.value() * gap < room && step.value() < static_cast<double>(count)) {
        step = step.next();
    }
    for (size_t i = 0; i < count; i += static_cast<size_t>(step.value())) {
        shown.push_back(i);
    }
    return shown;
}

std::string short_number(double value) {
    std::ostringstream out;
    out.imbue(std::locale::classic());
    out.precision(3);
    out << value;
    return out.str();
}

} // namespace buoy::figure
