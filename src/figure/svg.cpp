#include "figure/svg.h"

#include "base/base64.h"
#include "buoy/printable.h"
#include "buoy/utf8.h"
#include "figure/png.h"

#include <cmath>
#include <cstdint>
#include <map>

namespace buoy::figure {

namespace {

constexpr size_t runs_max = 2500; // of cells as rectangles; above that an embedded PNG is smaller

std::string class_of(const Paint & paint, bool is_fill) {
    return (is_fill ? "f" : "s") + std::to_string(static_cast<int>(paint.role)) +
           (paint.role == Role::series ? "-" + std::to_string(paint.index % series_color_count) : "");
}

std::string dark_rule(const Paint & paint, bool is_fill) {
    return (is_fill ? "fill:" : "stroke:") + hex(resolve(paint, Theme::dark));
}

class Writer {
public:
    explicit Writer(SvgTheme theme) : theme_(theme) {}

    std::string write(const Scene & scene) {
        add(Rect{{0, 0, scene.width, scene.height}, Role::background, ""});
        for (const Item & item : scene.items) {
            std::visit([&](const auto & it) { add(it); }, item);
        }
        const std::string size =
            "width=\"" + svg_number(scene.width) + "\" height=\"" + svg_number(scene.height) + "\"";
        return "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"buoy-figure\" role=\"img\" " + size +
               " viewBox=\"0 0 " + svg_number(scene.width) + " " + svg_number(scene.height) +
               "\" font-family=\"Helvetica, Arial, 'Liberation Sans', sans-serif\" "
               "style=\"max-width:100%;height:auto\">\n"
               "<title>" +
               xml_escape(scene.title) + "</title>\n<desc>" + xml_escape(scene.description) + "</desc>\n" + style() +
               body_ + "</svg>\n";
    }

private:
    // The light colours are attributes, which every program understands; the dark ones override them by class.
    std::string paint(const char * property, const Paint & with) {
        if (with.role == Role::none) {
            return std::string(" ") + property + "=\"none\"";
        }
        const Theme theme = theme_ == SvgTheme::dark ? Theme::dark : Theme::light;
        std::string out   = std::string(" ") + property + "=\"" + hex(resolve(with, theme)) + "\"";
        if (with.alpha < 1) {
            out += std::string(" ") + property + "-opacity=\"" + svg_number(with.alpha) + "\"";
        }
        return out;
    }

    std::string paints(const Paint & fill, const Paint & stroke) {
        std::string classes;
        if (theme_ == SvgTheme::both || theme_ == SvgTheme::page) {
            for (const bool is_fill : {true, false}) {
                const Paint & with = is_fill ? fill : stroke;
                if (with.role != Role::none && with.role != Role::fixed) {
                    const std::string name = class_of(with, is_fill);
                    classes += (classes.empty() ? "" : " ") + name;
                    dark_[name] = dark_rule(with, is_fill);
                }
            }
        }
        return (classes.empty() ? "" : " class=\"" + classes + "\"") + paint("fill", fill) +
               (stroke.role == Role::none ? "" : paint("stroke", stroke));
    }

    std::string style() const {
        if (dark_.empty() || theme_ == SvgTheme::page) {
            return "";
        }
        std::string out = "<style>@media (prefers-color-scheme:dark){";
        for (const auto & [name, rule] : dark_) {
            out += ".buoy-figure ." + name + "{" + rule + "}";
        }
        return out + "}</style>\n";
    }

    static std::string end(const char * element, const std::string & title) {
        return title.empty() ? "/>\n" : "><title>" + xml_escape(title) + "</title></" + element + ">\n";
    }

    void add(const Rect & rect) {
        body_ += "<rect x=\"" + svg_number(rect.box.x) + "\" y=\"" + svg_number(rect.box.y) + "\" width=\"" +
                 svg_number(rect.box.w) + "\" height=\"" + svg_number(rect.box.h) + "\"" + paints(rect.fill, {}) +
                 end("rect", rect.title);
    }

    void add(const Path & path) {
        std::string data;
        for (const auto & line : path.lines) {
            for (size_t i = 0; i < line.size(); i++) {
                data += (i == 0 ? "M" : "L") + svg_number(line[i].x) + " " + svg_number(line[i].y);
            }
            data += path.closed && !line.empty() ? "Z" : "";
        }
        body_ += "<path d=\"" + data + "\"" + paints(path.fill, path.stroke.paint);
        if (path.stroke.paint.role != Role::none) {
            body_ += " stroke-width=\"" + svg_number(path.stroke.width) +
                     "\" stroke-linejoin=\"round\" stroke-linecap=\"round\"";
            for (size_t i = 0; i < path.stroke.dash.size(); i++) {
                body_ += (i == 0 ? " stroke-dasharray=\"" : " ") + svg_number(path.stroke.dash[i]);
            }
            body_ += path.stroke.dash.empty() ? "" : "\"";
        }
        body_ += path.cells.empty() ? "" : " data-" + path.cells_name + "=\"" + path.cells + "\"";
        body_ += end("path", path.title);
    }

    void add(const Text & text) {
        const std::string x = svg_number(text.at.x);
        const std::string y = svg_number(text.at.y);
        body_ += "<text x=\"" + x + "\" y=\"" + y + "\" font-size=\"" + svg_number(text.size) + "\"" +
                 paints(text.paint, {});
        body_ += text.anchor == Anchor::middle ? " text-anchor=\"middle\""
                 : text.anchor == Anchor::end  ? " text-anchor=\"end\""
                                               : "";
        body_ += text.bold ? " font-weight=\"bold\"" : "";
        body_ += text.upward ? " transform=\"rotate(-90 " + x + " " + y + ")\"" : "";
        body_ += ">" + xml_escape(text.text) + "</text>\n";
    }

    void add(const Image & image) {
        if (image.rows == 0 || image.columns == 0) {
            return;
        }
        std::string  runs;
        size_t       n_runs = 0;
        const double w      = image.box.w / static_cast<double>(image.columns);
        const double h      = image.box.h / static_cast<double>(image.rows);
        for (size_t y = 0; y < image.rows && n_runs <= runs_max; y++) {
            const Color * row = image.cells.data() + y * image.columns;
            for (size_t x = 0, next = 0; x < image.columns && n_runs <= runs_max; x = next) {
                for (next = x + 1; next < image.columns && row[next] == row[x];) {
                    next++;
                }
                if (row[x].a == 255) {
                    n_runs++;
                    runs += "<path fill=\"" + hex(row[x]) + "\" d=\"M" +
                            svg_number(image.box.x + static_cast<double>(x) * w) + " " +
                            svg_number(image.box.y + static_cast<double>(y) * h) + "h" +
                            svg_number(static_cast<double>(next - x) * w) + "v" + svg_number(h) + "h" +
                            svg_number(-static_cast<double>(next - x) * w) + "z\"/>\n";
                }
            }
        }
        if (n_runs <= runs_max) {
            body_ += "<g shape-rendering=\"crispEdges\">\n" + runs + "</g>\n";
            return;
        }
        body_ += "<image x=\"" + svg_number(image.box.x) + "\" y=\"" + svg_number(image.box.y) + "\" width=\"" +
                 svg_number(image.box.w) + "\" height=\"" + svg_number(image.box.h) +
                 "\" preserveAspectRatio=\"none\" style=\"image-rendering:pixelated\" href=\"data:image/png;base64," +
                 base64(encode_png(image.cells, image.columns, image.rows)) + "\"/>\n";
    }

    SvgTheme                           theme_;
    std::string                        body_;
    std::map<std::string, std::string> dark_; // class to its rule
};

} // namespace

std::string svg_number(double value) {
    const long long hundredths = std::isfinite(value) ? std::llround(value * 100) : 0;
    const long long size       = std::llabs(hundredths);
    std::string     out        = (hundredths < 0 ? "-" : "") + std::to_string(size / 100);
    if (size % 100 != 0) {
        out += size % 10 == 0 ? "." + std::to_string(size % 100 / 10)
                              : (size % 100 < 10 ? ".0" : ".") + std::to_string(size % 100);
    }
    return out;
}

std::string xml_escape(std::string_view text) {
    const std::string repaired = utf8_repair(text);
    std::string_view  left     = repaired;
    std::string       out;
    while (!left.empty()) {
        const std::string_view next = left.substr(0, utf8_character_length(left));
        left.remove_prefix(next.size());
        switch (next[0]) {
            case '<': out += "&lt;"; break;
            case '>': out += "&gt;"; break;
            case '&': out += "&amp;"; break;
            case '"': out += "&quot;"; break;
            case '\t':
            case '\n': out += next; break;
            default: // U+FFFE and U+FFFF are no characters of XML
                out += printable_length(next) > 0 && next != "\uFFFE" && next != "\uFFFF" ? next : "\uFFFD";
        }
    }
    return out;
}

std::string svg_dark_rules(const std::string & scope) {
    std::vector<Paint> paints = {Role::background, Role::text, Role::muted, Role::grid, Role::absent};
    for (size_t i = 0; i < series_color_count; i++) {
        paints.push_back(Paint::of_series(i));
    }
    std::string out;
    for (const Paint & paint : paints) {
        for (const bool is_fill : {true, false}) {
            out += scope + " .buoy-figure ." + class_of(paint, is_fill) + "{" + dark_rule(paint, is_fill) + "}\n";
        }
    }
    return out;
}

std::string to_svg(const Scene & scene, SvgTheme theme) { return Writer(theme).write(scene); }

} // namespace buoy::figure
