#include "io/size-text.h"

#include <array>
#include <cmath>
#include <locale>
#include <sstream>

namespace buoy {

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
