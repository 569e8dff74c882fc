#include "io/parse-size.h"

#include "buoy/error.h"
#include "io/parse-number.h"
#include "io/printable.h"

#include <cmath>

namespace buoy {

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

} // namespace buoy
