#include "figure/screencast.h"

#include "figure/svg.h"

namespace buoy::figure {

namespace {

const char * class_of(TokenState state) {
    switch (state) {
        case TokenState::settled: return "";
        case TokenState::fresh: return " class=\"fresh\"";
        case TokenState::masked: return " class=\"dim\"";
    }
    return "";
}

// Spaces at the ends are left out; some viewers would not draw them.
std::string span_element(const ScreenSpan & span, int column, double y) {
    const size_t first = span.text.find_first_not_of(' ');
    if (first == std::string::npos) {
        return "";
    }
    const size_t end     = span.text.find_last_not_of(' ') + 1;
    const int    columns = span.columns - static_cast<int>(first + span.text.size() - end);
    return std::string("<text") + class_of(span.state) + " x=\"" +
           svg_number(ScreenLayout::margin + ScreenLayout::cell_width * (column + static_cast<int>(first))) +
           "\" y=\"" + svg_number(y + ScreenLayout::base_line) + "\" textLength=\"" +
           svg_number(ScreenLayout::cell_width * columns) + "\">" + xml_escape(span.text.substr(first, end - first)) +
           "</text>\n";
}

std::string line_elements(const ScreenLine & line, double y) {
    std::string out;
    int         column = 0;
    for (const ScreenSpan & span : line) {
        out += span_element(span, column, y);
        column += span.columns;
    }
    return out;
}

std::string rule(const char * selector, TokenState state, const char * more) {
    return std::string(selector) + "{fill:" + hex(ink_of(state)) + more + "}\n";
}

// Each frame is visible for its share of the whole; where nothing moves, the last one is.
std::string style_of(const Screencast & cast, double total) {
    const double shown = 100.0 * cast.milliseconds / total;
    const double last  = 100.0 * cast.milliseconds * static_cast<double>(cast.frames.size() - 1) / total;
    return "<style>\n" + rule("text", TokenState::settled, ";white-space:pre") + rule(".dim", TokenState::masked, "") +
           rule(".fresh", TokenState::fresh, ";font-weight:bold") + ".frame{visibility:hidden;animation:frame " +
           svg_number(total) + "ms step-end infinite}\n" + ".last{animation:last " + svg_number(total) +
           "ms step-end infinite}\n" + "@keyframes frame{0%{visibility:visible}" + svg_number(shown) +
           "%{visibility:hidden}}\n" + "@keyframes last{0%{visibility:hidden}" + svg_number(last) +
           "%{visibility:visible}}\n" +
           "@media (prefers-reduced-motion:reduce){.frame,.last{animation:none}}\n</style>\n";
}

} // namespace

std::string screencast_svg(const Screencast & cast) {
    const Screens      screens(cast);
    const ScreenLayout at(screens, cast.columns);
    const double       total = cast.milliseconds * static_cast<double>(cast.frames.size()) + last_frame_ms;
    const std::string  size  = svg_number(at.width) + " " + svg_number(at.height);
    std::string        out   = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + size + "\" width=\"" +
                      svg_number(at.width) + "\" height=\"" + svg_number(at.height) +
                      "\" role=\"img\" xml:space=\"preserve\" font-size=\"" + svg_number(ScreenLayout::font_size) +
                      "\" font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', "
                      "monospace\" style=\"max-width:100%;height:auto\">\n<title>" +
                      xml_escape(cast.command) + "</title>\n";
    out += style_of(cast, total) + "<rect width=\"" + svg_number(at.width) + "\" height=\"" + svg_number(at.height) +
           "\" rx=\"8\" fill=\"" + hex(screen_color) + "\"/>\n";
    for (size_t i = 0; i < screens.command.size(); i++) {
        out += line_elements(screens.command[i], ScreenLayout::margin + at.row(i));
    }
    for (size_t i = 0; i < screens.all.size(); i++) {
        const Screen & screen = screens.all[i];
        out += i + 1 == screens.all.size() ? "<g class=\"last\">\n"
                                           : "<g class=\"frame\" style=\"animation-delay:" +
                                                 svg_number(static_cast<double>(i) * cast.milliseconds) + "ms\">\n";
        for (size_t row = 0; row < screen.text.size(); row++) {
            out += line_elements(screen.text[row], at.text_top + at.row(row));
        }
        out += line_elements(screen.status, at.status_top) + "</g>\n";
    }
    return out + "</svg>\n";
}

} // namespace buoy::figure
