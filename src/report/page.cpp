#include "report/page.h"

#include "base/base64.h"
#include "buoy/error.h"
#include "buoy/message.h"
#include "buoy/printable.h"
#include "buoy/version.h"
#include "figure/color.h"
#include "figure/svg.h"

namespace buoy::report {

namespace {

using analysis::Json;

// Names, tokens and settings of a recording may hold anything; what the page shows of them is printable.
Json shown(const Json & json) {
    if (json.is_string()) {
        return printable_lines(json.get_ref<const std::string &>());
    }
    Json out = json;
    for (Json & part : out) {
        part = part.is_structured() || part.is_string() ? shown(part) : part;
    }
    return out;
}

// JSON inside a script element: nothing in it can end the element or begin a comment.
std::string script_json(const Json & json) {
    const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
    std::string       out;
    out.reserve(text.size());
    for (char c : text) {
        switch (c) {
            case '<': out += "\\u003c"; break;
            case '>': out += "\\u003e"; break;
            case '&': out += "\\u0026"; break;
            default: out += c;
        }
    }
    return out;
}

std::string from_hex(const std::string & hex) {
    std::string out;
    for (size_t i = 0; i + 1 < hex.size(); i += 2) {
        out += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
    }
    return out;
}

// The colours of figures' heat maps, #rrggbb each.
Json color_table() {
    Json out = Json::array();
    for (int i = 0; i < 256; i++) {
        out.push_back(figure::hex(figure::sequential_color(i / 255.0)));
    }
    return out;
}

std::string figures_html(const std::vector<MetricFigure> & figures) {
    std::string out;
    for (const MetricFigure & one : figures) {
        if (!one.svg.empty()) {
            out += "<figure class=\"metric\" id=\"metric-" + one.name + "\">" + one.svg + "</figure>\n";
        }
    }
    std::string missing;
    for (const MetricFigure & one : figures) {
        if (one.svg.empty()) {
            missing += "<li><b>" + one.name + "</b>: " + figure::xml_escape(one.reason) + "</li>\n";
        }
    }
    return out + (missing.empty() ? ""
                                  : "<div class=\"missing\"><p>Not available for these recordings:</p>\n<ul>\n" +
                                        missing + "</ul></div>\n");
}

} // namespace

std::string script_hash(const PageParts & parts) { return base64(from_hex(parts.js_sha256)); }

std::string fill(const std::string & html, const std::map<std::string, std::string> & parts) {
    std::string out;
    size_t      at = 0;
    for (size_t open = 0; (open = html.find("{{", at)) != std::string::npos;) {
        const size_t close = html.find("}}", open);
        out.append(html, at, open - at);
        out += parts.at(html.substr(open + 2, close - open - 2));
        at = close + 2;
    }
    return out.append(html, at, std::string::npos);
}

std::string make_page(const std::string & title, const std::vector<Payload> & payloads,
                      const std::vector<MetricFigure> & figures) {
    Json        data = {{"version", version()}, {"colors", color_table()}, {"runs", Json::array()}};
    std::string matrices;
    for (size_t i = 0; i < payloads.size(); i++) {
        data["runs"].push_back(shown(payloads[i].json));
        matrices += "<script type=\"text/plain\" id=\"matrices-" + std::to_string(i) + "\">" + payloads[i].matrices +
                    "</script>\n";
    }
    const PageParts & parts = page_parts();
    return fill(parts.html, {{"title", figure::xml_escape(title)},
                             {"hash", script_hash(parts)},
                             {"css", parts.css + figure::svg_dark_rules(":root[data-theme=\"dark\"]")},
                             {"figures", figures_html(figures)},
                             {"data", "<script type=\"application/json\" id=\"data\">" + script_json(data) +
                                          "</script>\n" + matrices},
                             {"js", parts.js}});
}

} // namespace buoy::report
