#include "base/file-name.h"

#include "buoy/printable.h"
#include "buoy/utf8.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace buoy {

namespace {

bool is_plain(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
}

// What Windows takes for a device, with any extension.
bool is_device(std::string_view name) {
    static constexpr std::array<std::string_view, 6> words = {"con", "prn", "aux", "nul", "com", "lpt"};

    std::string stem(name.substr(0, name.find('.')));
    std::transform(stem.begin(), stem.end(), stem.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    const std::string_view word   = std::string_view(stem).substr(0, 3);
    const std::string_view number = std::string_view(stem).substr(word.size());
    const bool             known  = std::find(words.begin(), words.end(), word) != words.end();
    const bool             port   = word == "com" || word == "lpt";
    const bool             digit = (number.size() == 1 && number[0] >= '0' && number[0] <= '9') || number == "\u00b9" ||
                       number == "\u00b2" || number == "\u00b3";
    return known && (port ? digit : number.empty());
}

} // namespace

std::string file_name_part(std::string_view text, size_t length_max) {
    std::string out;
    while (!text.empty()) {
        const size_t     length = printable_length(text);
        std::string_view next   = length > 1 || is_plain(text[0]) ? text.substr(0, std::max<size_t>(length, 1)) : "-";
        text.remove_prefix(utf8_character_length(text));
        if (out.empty() && (next == "." || next == "-")) {
            continue;
        }
        if (out.size() + next.size() > length_max) {
            break;
        }
        out += next == "." && out.back() == '.' ? "" : next;
    }
    out.erase(out.find_last_not_of(".-") + 1); // npos + 1 is 0
    return is_device(out) ? "_" + out : out;
}

std::string file_name_of(std::string_view text, std::string_view fallback, size_t length_max) {
    std::string name = file_name_part(text, length_max);
    return name.empty() ? std::string(fallback) : name;
}

bool is_file_name(std::string_view text) {
    if (text.empty() || text == "." || text == ".." || text.size() > 255) {
        return false;
    }
    while (!text.empty()) {
        const size_t length = printable_length(text);
        if (length == 0 || text[0] == '/' || text[0] == '\\') {
            return false;
        }
        text.remove_prefix(length);
    }
    return true;
}

} // namespace buoy
