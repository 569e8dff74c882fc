#pragma once

#include "report/page.h"

namespace buoy::serve {

// What cmake/embed-page.cmake makes of page/.
const report::PageParts & page_parts();

} // namespace buoy::serve
