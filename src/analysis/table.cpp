#include "buoy/table.h"

#include "buoy/utf8.h"
#include "figure/text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace buoy::analysis {

namespace {

std::string fixed(double value, int digits) {
    if (!std::isfinite(value)) {
        return "–";
    }
    char text[400];
    std::snprintf(text, sizeof(text), "%.*f", digits, value);
    std::replace(text, text + sizeof(text), ',', '.'); // some locales' point
    return text;
}

std::string readable(const Cell & cell, int digits) {
    if (const auto * text = std::get_if<std::string>(&cell)) {
        return figure::clean_text(*text);
    }
    if (const auto * whole = std::get_if<int64_t>(&cell)) {
        return std::to_string(*whole);
    }
    if (const auto * number = std::get_if<double>(&cell)) {
        return fixed(*number, digits);
    }
    const auto & spread = std::get<Spread>(cell);
    return fixed(spread.mean, digits) + (spread.n > 1 ? " ± " + fixed(spread.deviation, digits) : "");
}

std::string number_field(double value) { return std::isfinite(value) ? nlohmann::json(value).dump() : ""; }

std::string csv_field(const Cell & cell) {
    if (const auto * whole = std::get_if<int64_t>(&cell)) {
        return std::to_string(*whole);
    }
    if (const auto * number = std::get_if<double>(&cell)) {
        return number_field(*number);
    }
    if (const auto * spread = std::get_if<Spread>(&cell)) {
        return number_field(spread->mean);
    }
    const auto & text = std::get<std::string>(cell);
    if (text.find_first_of(",\"\r\n") == std::string::npos) {
        return text;
    }
    std::string quoted = "\"";
    for (char c : text) {
        quoted += c == '"' ? "\"\"" : std::string(1, c);
    }
    return quoted + "\"";
}

} // namespace

std::string to_text(const Table & table) {
    std::vector<std::vector<std::string>> lines(1);
    std::vector<bool>                     left(table.columns.size(), true); // texts; numbers stand right
    for (const Column & column : table.columns) {
        lines[0].push_back(column.name);
    }
    for (const auto & row : table.rows) {
        lines.emplace_back();
        for (size_t i = 0; i < row.size(); i++) {
            lines.back().push_back(readable(row[i], table.columns[i].digits));
            left[i] = left[i] && std::holds_alternative<std::string>(row[i]);
        }
    }
    std::vector<size_t> widths(table.columns.size(), 0);
    for (const auto & line : lines) {
        for (size_t i = 0; i < line.size(); i++) {
            widths[i] = std::max(widths[i], utf8_columns(line[i]));
        }
    }
    std::string out = table.title.empty() ? "" : table.title + "\n";
    for (const auto & line : lines) {
        std::string text;
        for (size_t i = 0; i < line.size(); i++) {
            const std::string space(widths[i] - utf8_columns(line[i]), ' ');
            text += (i == 0 ? "" : "  ") + (left[i] ? line[i] + space : space + line[i]);
        }
        out += text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
    }
    return out;
}

std::string to_csv(const Table & table) {
    std::string out;
    for (size_t i = 0; i < table.columns.size(); i++) {
        out += (i == 0 ? "" : ",") + csv_field(table.columns[i].name);
    }
    out += "\n";
    for (const auto & row : table.rows) {
        for (size_t i = 0; i < row.size(); i++) {
            out += (i == 0 ? "" : ",") + csv_field(row[i]);
        }
        out += "\n";
    }
    return out;
}

} // namespace buoy::analysis
