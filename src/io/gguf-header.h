#pragma once

#include "io/gguf-values.h"
#include "io/mapped-file.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <ggml.h>

namespace buoy {

struct GgufTensor {
    std::string            name;
    ggml_type              type   = GGML_TYPE_F32;
    int                    n_dims = 0;
    std::array<int64_t, 4> ne{};       // innermost first, 1 beyond n_dims
    uint64_t               offset = 0; // absolute in its file
    uint64_t               size   = 0; // bytes
    int                    file   = 0; // index into GgufFile::paths()
};

// One file's header, checked against the file: every tensor lies inside it, aligned, and none overlaps another.
struct GgufHeader {
    uint32_t                version   = 0;
    uint32_t                alignment = 0;
    GgufValues              values;
    std::vector<GgufTensor> tensors;
};

GgufHeader read_gguf_header(const MappedFile & file, int file_index);

} // namespace buoy
