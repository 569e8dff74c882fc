#pragma once

#include <string>
#include <string_view>

namespace buoy {

std::string base64(std::string_view data); // with padding

} // namespace buoy
