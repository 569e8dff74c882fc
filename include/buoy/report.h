#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace buoy::report {

struct ReportParams {
    std::vector<std::string> paths;  // one recording, or two side by side
    std::vector<std::string> labels; // instead of the models' names; empty: none
    std::string              out;
    bool                     force    = false;    // replace an existing file
    uint64_t                 max_size = 20 << 20; // bytes of attention on the page
    // of a message that names settings (buoy/message.h), as the page's readers know them; none: as it is
    std::function<std::string(const std::string &)> wording;
};

// Writes one self-contained HTML page; what it had to leave out, a sentence each.
std::vector<std::string> write_report(const ReportParams & params);

} // namespace buoy::report
