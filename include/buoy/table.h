#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace buoy::analysis {

// Of several values.
struct Spread {
    double mean      = 0;
    double deviation = 0; // of the sample, n - 1; 0 for a single value
    size_t n         = 0;
};

// A number is NaN where there is none. A spread is printed as mean ± deviation, in CSV as its mean.
using Cell = std::variant<std::string, int64_t, double, Spread>;

struct Column {
    std::string name;
    int         digits = 3; // behind the point, when printed to be read
};

struct Table {
    std::string                    title; // may be empty
    std::vector<Column>            columns;
    std::vector<std::vector<Cell>> rows;
    size_t n_keys = 1; // columns that say what a row is; repeated where the table is printed in parts
};

// To be read, at most `width` columns of a terminal wide; 0: as wide as it is. Where that is too narrow, names of columns and the last column's texts get
// several lines, then the table comes in parts, one below the other.
std::string to_text(const Table & table, size_t width = 0);

// Lines of words, at most `width` columns wide unless a single word is wider.
std::vector<std::string> wrap_words(const std::string & text, size_t width);
std::string              to_csv(const Table & table); // numbers as they are, with 17 digits where they need them

} // namespace buoy::analysis
