#include "buoy/table.h"

#include "buoy/message.h"
#include "buoy/printable.h"
#include "buoy/utf8.h"
#include "figure/text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <sstream>

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
    const std::string text = printable_lines(std::get<std::string>(cell));
    if (text.find_first_of(",\"\r\n") == std::string::npos) {
        return text;
    }
    std::string quoted = "\"";
    for (char c : text) {
        quoted += c == '"' ? "\"\"" : std::string(1, c);
    }
    return quoted + "\"";
}

// A number and its unit stay together.
std::vector<std::string> words_of(const std::string & text) {
    std::vector<std::string> words;
    std::istringstream       in(text);
    for (std::string word; in >> word;) {
        if (!words.empty() && word[0] == '%') {
            words.back() += " " + word;
        } else {
            words.push_back(word);
        }
    }
    return words;
}

size_t longest_word(const std::string & text) {
    size_t longest = 0;
    for (const std::string & word : words_of(text)) {
        longest = std::max(longest, utf8_columns(word));
    }
    return longest;
}

// A table as lines of text.
class TextTable {
public:
    explicit TextTable(const Table & table) : table_(table), columns_(table.columns.size()) {
        for (size_t i = 0; i < columns_.size(); i++) {
            columns_[i].name = figure::clean_text(table.columns[i].name);
        }
        for (const auto & row : table.rows) {
            for (size_t i = 0; i < row.size(); i++) {
                columns_[i].cells.push_back(readable(row[i], table.columns[i].digits));
                columns_[i].left  = columns_[i].left && std::holds_alternative<std::string>(row[i]);
                columns_[i].width = std::max(columns_[i].width, utf8_columns(columns_[i].cells.back()));
            }
        }
    }

    std::string text(size_t width) {
        std::string         out = table_.title.empty() ? "" : printable(table_.title) + "\n";
        std::vector<size_t> all(columns_.size());
        std::iota(all.begin(), all.end(), size_t{0});
        set_widths([](const std::string & name) { return utf8_columns(name); });
        if (width == 0 || width_of(all) <= width) {
            return out + block(all);
        }
        set_widths(longest_word); // names of several words become several lines
        const std::vector<std::vector<size_t>> blocks = split(width);
        for (size_t i = 0; i < blocks.size(); i++) {
            fit_last(blocks[i], width);
            out += (i == 0 ? "" : "\n") + block(blocks[i]);
        }
        return out;
    }

private:
    struct Text {
        std::string              name;
        std::vector<std::string> cells;
        bool                     left  = true; // texts; numbers stand right
        size_t                   width = 0;    // of the cells
        size_t                   shown = 0;    // and of its name
    };

    template <typename NameWidth> void set_widths(const NameWidth & name_width) {
        for (size_t i = 0; i < columns_.size(); i++) {
            columns_[i].shown = std::max(columns_[i].width, name_width(columns_[i].name));
        }
    }

    size_t width_of(const std::vector<size_t> & chosen) const {
        size_t width = chosen.empty() ? 0 : 2 * (chosen.size() - 1);
        for (const size_t i : chosen) {
            width += columns_[i].shown;
        }
        return width;
    }

    // As many columns side by side as fit, behind those that say what a row is.
    std::vector<std::vector<size_t>> split(size_t width) const {
        std::vector<size_t> keys(std::min(table_.n_keys, columns_.size()));
        std::iota(keys.begin(), keys.end(), size_t{0});
        std::vector<std::vector<size_t>> blocks(1, keys);
        for (size_t i = keys.size(); i < columns_.size(); i++) {
            blocks.back().push_back(i);
            if (width_of(blocks.back()) > width && blocks.back().size() > keys.size() + 1) {
                blocks.back().pop_back();
                blocks.push_back(keys);
                blocks.back().push_back(i);
            }
        }
        return blocks;
    }

    // A text in the last column gets several lines instead of a long one.
    void fit_last(const std::vector<size_t> & chosen, size_t width) {
        Text &       last = columns_[chosen.back()];
        const size_t all  = width_of(chosen);
        if (all > width && last.left && last.shown > all - width + 8) {
            last.shown -= all - width;
        }
    }

    // Rows of lines, each with a text for each column; the last lines stand on one line, or the first.
    std::string lines_of(const std::vector<size_t> & chosen, const std::vector<std::vector<std::string>> & texts,
                         bool at_bottom) const {
        size_t n = 1;
        for (const auto & lines : texts) {
            n = std::max(n, lines.size());
        }
        std::string out;
        for (size_t line = 0; line < n; line++) {
            std::string text;
            for (size_t i = 0; i < chosen.size(); i++) {
                const Text &      column = columns_[chosen[i]];
                const size_t      above  = at_bottom ? n - texts[i].size() : 0;
                const std::string part = line >= above && line - above < texts[i].size() ? texts[i][line - above] : "";
                const std::string space(column.shown - std::min(column.shown, utf8_columns(part)), ' ');
                text += (i == 0 ? "" : "  ") + (column.left ? part + space : space + part);
            }
            out += text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
        }
        return out;
    }

    std::string block(const std::vector<size_t> & chosen) const {
        std::vector<std::vector<std::string>> names;
        for (const size_t i : chosen) {
            names.push_back(wrap_words(columns_[i].name, columns_[i].shown));
        }
        std::string out = lines_of(chosen, names, true);
        for (size_t row = 0; row < table_.rows.size(); row++) {
            std::vector<std::vector<std::string>> texts;
            for (const size_t i : chosen) {
                const std::string & cell = columns_[i].cells[row];
                texts.push_back(utf8_columns(cell) > columns_[i].shown ? wrap_words(cell, columns_[i].shown)
                                                                       : std::vector<std::string>{cell});
            }
            out += lines_of(chosen, texts, false);
        }
        return out;
    }

    const Table &     table_;
    std::vector<Text> columns_;
};

} // namespace

std::vector<std::string> wrap_words(const std::string & text, size_t width) {
    std::vector<std::string> lines(1);
    for (const std::string & word : words_of(text)) {
        const size_t n = utf8_columns(lines.back());
        if (n > 0 && width > 0 && n + 1 + utf8_columns(word) > width) {
            lines.emplace_back();
        }
        lines.back() += (lines.back().empty() ? "" : " ") + word;
    }
    return lines;
}

std::string to_text(const Table & table, size_t width) { return TextTable(table).text(width); }

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
