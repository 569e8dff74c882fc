#pragma once

#include "analysis/study.h"
#include "report/page-plan.h"

#include <cstdint>
#include <string>
#include <vector>

namespace buoy::report {

// What the page knows of one recording: `json` describes it, `matrices` are its patterns in base64 (report/matrix-pack.h), found by
// the offsets in the JSON.
struct Payload {
    analysis::Json           json;
    std::string              matrices;
    std::vector<std::string> reduced; // sentences on what was left out
};

PageShape page_shape(const analysis::Recording & recording);

// Bytes of a whole recording's patterns on a page.
uint64_t payload_size(const analysis::Recording & recording);

// At most size_max bytes, but for the text and its steps. Reads each pattern that the page has once.
Payload make_payload(const analysis::Recording & recording, const std::string & label, uint64_t size_max);

} // namespace buoy::report
