#pragma once

#include "target.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace buoy::fuzz {

// Numbers near the limits that a parser may get wrong.
uint64_t edge_number(Random & random);

// One change each.
void mutate_bytes(std::string & input, Random & random); // numbers of 1, 2, 4 and 8 bytes, cuts and copies
void mutate_text(std::string & input, Random & random, const std::vector<std::string> & words);
void mutate_json(std::string & input, Random & random);

// Several files as one input: each begins with a line "=== NAME". What can't be a name is left out.
using Parts = std::vector<std::pair<std::string, std::string>>;

std::string bundled(const Parts & parts);
Parts       unbundled(const std::string & input);

} // namespace buoy::fuzz
