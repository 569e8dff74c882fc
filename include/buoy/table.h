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
};

std::string to_text(const Table & table);
std::string to_csv(const Table & table); // numbers as they are, with 17 digits where they need them

} // namespace buoy::analysis
