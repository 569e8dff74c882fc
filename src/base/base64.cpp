#include "base/base64.h"

#include <cstdint>

namespace buoy {

std::string base64(std::string_view data) {
    static constexpr char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    std::string out;
    out.reserve((data.size() + 2) / 3 * 4);
    for (size_t i = 0; i < data.size(); i += 3) {
        uint32_t group = 0;
        for (size_t j = 0; j < 3; j++) {
            group = group << 8 | (i + j < data.size() ? static_cast<uint8_t>(data[i + j]) : 0u);
        }
        for (size_t j = 0; j < 4; j++) {
            out += i + j <= data.size() ? digits[group >> (18 - 6 * j) & 63] : '=';
        }
    }
    return out;
}

} // namespace buoy
