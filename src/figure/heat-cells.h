#pragma once

#include "buoy/figure.h"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace buoy::figure {

// The cells of a heat map that are drawn: its own, or fewer where there are more than pixels.
struct HeatCells {
    size_t                                 rows = 0, columns = 0;
    std::vector<float>                     values;
    std::vector<std::pair<size_t, size_t>> hatched, outlined; // without duplicates, in order
    bool                                   has_absent = false;
    std::string                            note; // what was put together, for the caption
};

// A cell of several values shows their largest (diverging: the one farthest from 0) or their mean; it is hatched, or outlined, if one is.
HeatCells heat_cells(const HeatMap & map, size_t columns_max, size_t rows_max);

} // namespace buoy::figure
