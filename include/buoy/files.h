#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace buoy {

// Files are written under a temporary name beside theirs, so that the final name never holds half of one.

// force: replace an existing file
void write_file(const std::string & path, const std::string & bytes, bool force);

// Throws Error where write_file() could not create the file now: for what takes long to make.
void check_output(const std::string & path, bool force);

// A C-ordered float32 array as numpy.load reads it; replaces an existing file.
void write_npy(const std::string & path, const std::vector<int64_t> & shape, const std::vector<float> & data);

// A float32 array of this shape. Throws Error for anything else.
std::vector<float> read_npy(const std::string & path, const std::vector<int64_t> & shape);

} // namespace buoy
