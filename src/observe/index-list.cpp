#include "buoy/index-ranges.h"

#include "buoy/message.h"
#include "buoy/parse.h"

#include <algorithm>
#include <optional>
#include <string_view>

namespace buoy {

namespace {

// "4", "4-7" or "4-"
std::optional<std::pair<int32_t, int32_t>> parse_range(std::string_view part) {
    const size_t dash  = part.find('-');
    const auto   first = parse_number<int32_t>(part.substr(0, dash));
    auto         last  = first;
    if (dash != std::string_view::npos) {
        const std::string_view end = part.substr(dash + 1);
        last                       = end.empty() ? open_end : parse_number<int32_t>(end);
    }
    if (!first || !last || *first < 0 || *last < *first) {
        return std::nullopt;
    }
    return std::pair(*first, *last);
}

} // namespace

IndexRanges parse_index_ranges(const std::string & where, const std::string & text) {
    IndexRanges ranges;
    if (text == "all" || text == "*") {
        return ranges;
    }
    for (const std::string & part : split(text)) {
        const auto range = parse_range(part);
        if (!range) {
            fail(where, ": ", in_quotes(text), " is not a list of indices such as 0,4-7,12- or all");
        }
        ranges.push_back(*range);
    }
    return ranges;
}

std::vector<int32_t> resolve_ranges(const std::string & where, const IndexRanges & ranges, const std::string & what,
                                    int32_t count) {
    std::vector<int32_t> indices;
    for (const auto & [first, last] : ranges) {
        const int32_t wanted = last == open_end ? first : last;
        if (wanted >= count) {
            fail(where, ": there is no ", what, " ", wanted, ", expected 0 to ", count - 1);
        }
        for (int32_t i = first; i <= std::min(last, count - 1); i++) {
            indices.push_back(i);
        }
    }
    std::sort(indices.begin(), indices.end());
    indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
    return indices;
}

} // namespace buoy
