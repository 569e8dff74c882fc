#include "figure/text.h"

#include "buoy/message.h"
#include "buoy/utf8.h"
#include "figure/font.h"
#include "figure/scene.h"

#include <algorithm>

namespace buoy::figure {

namespace {

constexpr std::string_view ellipsis = "…";

// Bytes of the text that fit, in whole characters.
size_t fitting_length(std::string_view text, double size, double width, bool bold) {
    size_t length = 0;
    double used   = 0;
    while (length < text.size()) {
        const size_t next = utf8_character_length(text.substr(length));
        used += text_width(text.substr(length, next), size, bold);
        if (used > width) {
            break;
        }
        length += next;
    }
    return length;
}

std::string cut_clean(std::string_view text, double size, double width, bool bold) {
    if (text_width(text, size, bold) <= width) {
        return std::string(text);
    }
    const double rest = width - text_width(ellipsis, size, bold);
    if (rest < 0) {
        return "";
    }
    return std::string(text.substr(0, fitting_length(text, size, rest, bold))) + std::string(ellipsis);
}

} // namespace

double text_width(std::string_view text, double size, bool bold) {
    double units = 0;
    while (!text.empty()) {
        units += glyph(next_character(text)).advance + (bold ? 0.7 : 0);
    }
    return units * size / font_units;
}

std::string clean_text(std::string_view text) {
    constexpr size_t length_max = 4000;

    std::string spelled;
    for (const char c : text.substr(0, length_max)) {
        c == '\n' ? spelled += "\\n" : c == '\t' ? spelled += "\\t" : c == '\r' ? spelled += "\\r" : spelled += c;
    }
    if (text.size() > length_max) {
        spelled.resize(utf8_whole_length(spelled));
        spelled += ellipsis;
    }
    return printable(spelled, 4 * length_max);
}

std::string token_label(std::string_view piece) {
    std::string label = clean_text(piece);
    const bool  first = !label.empty() && label.front() == ' ';
    const bool  last  = label.size() > 1 && label.back() == ' ';
    label             = label.substr(first ? 1 : 0, label.size() - (first ? 1 : 0) - (last ? 1 : 0));
    return (first ? "·" : "") + label + (last ? "·" : "");
}

std::string cut_text(std::string_view text, double size, double width, bool bold) {
    return cut_clean(clean_text(text), size, width, bold);
}

std::vector<std::string> wrap_text(std::string_view text, double size, double width, size_t lines_max, bool bold) {
    const std::string        clean = clean_text(text);
    std::string_view         rest  = clean;
    std::vector<std::string> lines;
    while (!rest.empty() && lines.size() < lines_max) {
        size_t length = fitting_length(rest, size, width, bold);
        if (length < rest.size()) {
            if (lines.size() + 1 == lines_max) {
                lines.push_back(cut_clean(rest, size, width, bold));
                break;
            }
            const size_t space = rest.rfind(' ', length);
            length =
                space != std::string_view::npos && space > 0 ? space : std::max(length, utf8_character_length(rest));
        }
        lines.emplace_back(rest.substr(0, length));
        rest.remove_prefix(length);
        rest.remove_prefix(std::min(rest.size(), rest.find_first_not_of(' ')));
    }
    return lines;
}

Box text_box(const Text & text) {
    const double width = text_width(text.text, text.size, text.bold);
    const double shift = text.anchor == Anchor::start ? 0 : text.anchor == Anchor::middle ? -width / 2 : -width;
    const double above = text_ascent * text.size;
    const double total = (text_ascent + text_descent) * text.size;
    if (text.upward) {
        return {text.at.x - above, text.at.y - shift - width, total, width};
    }
    return {text.at.x + shift, text.at.y - above, width, total};
}

} // namespace buoy::figure
