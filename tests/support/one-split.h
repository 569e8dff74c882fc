#pragma once

#include "buoy/context.h"

#include <string>
#include <vector>

namespace buoy::test {

// Checks that decoding steps without taps are computed by one device from beginning to end: a pass over everything, one that
// stores K/V, and one row against what is stored.
void check_one_split(Context & context, const std::string & device);

// The devices of the weights whose names contain the text.
std::vector<std::string> devices_of(const Context & context, const std::string & part);

} // namespace buoy::test
