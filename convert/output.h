#pragma once

#include "convert.h"
#include "input.h"

#include <cstdint>
#include <string>
#include <vector>

namespace buoy {

class Imatrix;

// One file to write: some of the tensors, in order.
struct OutputFile {
    std::string       path;
    std::vector<char> header;
    size_t            first   = 0; // tensors first … end-1
    size_t            end     = 0;
    uint64_t          n_bytes = 0; // header included
};

// One file, or several of at most split_max bytes each (0: no limit); a tensor that is larger has a file of its own.
std::vector<OutputFile> plan_output(const ConvertInput & input, const std::string & path, uint64_t split_max);

struct WriteParams {
    bool            force     = false;
    int             n_threads = 1;
    const Imatrix * imatrix   = nullptr;
    LogCallback     log;
    ByteProgress    progress;
};

// The files appear under their names only when all of them are complete.
void write_output(const std::vector<OutputFile> & files, const std::vector<PlannedTensor> & tensors,
                  const WriteParams & params);

} // namespace buoy
