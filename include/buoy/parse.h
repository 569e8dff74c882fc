#pragma once

#include <charconv>
#include <cstdint>
#include <limits>
#include <locale>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace buoy {

// The number that the whole text is; no value where it is none or T can't hold it. Decimal, with a point in every locale, a minus
// but no plus; "inf" and "nan" where T has them. Apple's libc++ has std::from_chars for whole numbers only.
template <typename T> std::optional<T> parse_number(std::string_view text) {
    T number{};
    if constexpr (std::is_integral_v<T>) {
        const char * end    = text.data() + text.size();
        const auto   result = std::from_chars(text.data(), end, number);
        return result.ec == std::errc() && result.ptr == end ? std::optional<T>(number) : std::nullopt;
    } else {
        const bool             negative = !text.empty() && text[0] == '-';
        const std::string_view digits   = text.substr(negative ? 1 : 0);
        if (digits == "inf" || digits == "nan") {
            number = digits == "inf" ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::quiet_NaN();
            return negative ? -number : number;
        }
        if (digits.empty() || digits[0] == '-' || digits[0] == '+' ||
            digits.find_first_not_of("0123456789.eE+-") != std::string_view::npos) {
            return std::nullopt;
        }
        std::istringstream in{std::string(text)};
        in.imbue(std::locale::classic());
        in >> number;
        return !in.fail() && in.peek() == std::istringstream::traits_type::eof() ? std::optional<T>(number)
                                                                                 : std::nullopt;
    }
}

// The parts between separators, any of these characters; one part where there is none.
std::vector<std::string> split(std::string_view text, const char * separators = ",");

// "500M", "8G", "1.5T" (units of 1024) or bytes; an Error that begins with `where`.
uint64_t parse_size(const std::string & where, const std::string & text);

std::string size_text(uint64_t bytes); // 1.2 GiB

} // namespace buoy
