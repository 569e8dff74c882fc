#pragma once

#include <string>

// docs/cli.md around the tables of flags, which come from where the flags are defined.
std::string manual(const std::string & flags, const std::string & freq_flags);
