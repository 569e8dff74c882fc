#include "buoy/parse.h"

#include "buoy/message.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <locale>
#include <sstream>

namespace buoy {

std::vector<std::string> split(std::string_view text, const char * separators) {
    std::vector<std::string> parts;
    for (size_t first = 0; first <= text.size();) {
        const size_t last = std::min(text.find_first_of(separators, first), text.size());
        parts.emplace_back(text.substr(first, last - first));
        first = last + 1;
    }
    return parts;
}

uint64_t parse_size(const std::string & where, const std::string & text) {
    const std::string units  = "KMGT";
    const size_t      unit   = text.empty() ? std::string::npos : units.find(text.back());
    const auto        number = parse_number<double>(unit == std::string::npos ? text : text.substr(0, text.size() - 1));
    const double      bytes =
        number.value_or(-1.0) * std::exp2(unit == std::string::npos ? 0 : 10.0 * static_cast<double>(unit + 1));
    if (!(bytes >= 1.0 && bytes < 9e18)) {
        fail(where, ": ", in_quotes(text), " is not a size such as 500M, 8G or a number of bytes");
    }
    return static_cast<uint64_t>(bytes);
}

std::string size_text(uint64_t bytes) {
    static constexpr std::array<const char *, 5> units = {"bytes", "KiB", "MiB", "GiB", "TiB"};

    auto   value = static_cast<double>(bytes);
    size_t unit  = 0;
    while (value >= 1024.0 && unit + 1 < units.size()) {
        value /= 1024.0;
        unit++;
    }
    if (unit > 0) {
        value = std::ceil(value * 10.0) / 10.0; // a limit or a need is never told too small
    }
    std::ostringstream out;
    out.imbue(std::locale::classic());
    out.precision(unit == 0 ? 0 : 1);
    out << std::fixed << value << ' ' << units[unit];
    return out.str();
}

} // namespace buoy
