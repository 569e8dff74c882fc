// The library's version.
#include "buoy/version.h"

#include <cstdio>
#include <string>

void example_version(const std::string &) { std::printf("buoy %s\n", buoy::version()); }
