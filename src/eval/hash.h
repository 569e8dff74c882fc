#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace buoy {

// FNV-1a, 64 bits: tells inputs apart, protects against nothing.
uint64_t hash_number(std::string_view text);

// The same in hexadecimal.
std::string hash_text(std::string_view text);

// Of a file: of its size and all of it, or of its first and last 32 MiB where it is larger.
std::string hash_file(const std::string & path);

} // namespace buoy
