#pragma once

namespace buoy {

// The library's version, with the commit it was built from where that is known: "0.1.0 (1a2b3c4d5e)".
const char * version() noexcept;

} // namespace buoy
