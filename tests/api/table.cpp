// A table to be read, and as CSV.
#include "buoy/table.h"

#include <cstdio>
#include <string>

void example_table(const std::string &) {
    buoy::analysis::Table table;
    table.title   = "Attention";
    table.columns = {{"layer"}, {"share", 2}};
    table.rows    = {{int64_t{0}, 0.25}, {int64_t{1}, buoy::analysis::Spread{0.5, 0.1, 3}}};
    std::printf("%s\n%s", buoy::analysis::to_text(table).c_str(), buoy::analysis::to_csv(table).c_str());
}
