#pragma once

#include <string>
#include <vector>

namespace buoy {

// Throws Error where the server can't be reached, does not answer, or is of another version.
void check_server(const std::string & endpoint);

// Those of the servers known to this process that nothing listens at any more.
std::vector<std::string> missing_servers();

} // namespace buoy
