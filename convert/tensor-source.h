#pragma once

#include "io/mapped-file.h"

#include <ggml.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace buoy {

// Factors of an FP8 matrix, one for every block of it.
struct Fp8Scales {
    int64_t            block_rows = 1;
    int64_t            block_cols = 1;
    int64_t            n_across   = 1; // blocks side by side
    std::vector<float> values;         // [blocks down, n_across]

    const float * row(int64_t i) const { return values.data() + i / block_rows * n_across; }
};

// A matrix as the input stores it: rows of a type that ggml can read, or FP8 (E4M3), one behind the other.
struct TensorSource {
    std::string                       name; // in the input, for messages
    std::shared_ptr<const MappedFile> file;
    uint64_t                          offset = 0;
    ggml_type                         type   = GGML_TYPE_F32; // what decode() yields where there are scales
    std::shared_ptr<const Fp8Scales>  scales;                 // FP8 if given

    // Bytes of a row.
    uint64_t row_size(int64_t n_cols) const {
        return scales ? static_cast<uint64_t>(n_cols) : ggml_row_size(type, n_cols);
    }

    void read(int64_t first_row, int64_t n_rows, int64_t n_cols, void * out) const {
        const uint64_t size = row_size(n_cols);
        file->read(offset + static_cast<uint64_t>(first_row) * size, out,
                   static_cast<size_t>(static_cast<uint64_t>(n_rows) * size));
    }
};

// One stored row as floats; i is its number, which FP8 needs.
void decode_row(const TensorSource & source, const char * row, int64_t i, int64_t n_cols, float * out);

} // namespace buoy
