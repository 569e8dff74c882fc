#pragma once

#include "tensor-plan.h"

#include <string>
#include <unordered_map>
#include <vector>

namespace buoy {

// Sums over what went into each matrix: of the squares, column by column, and of the rows that were seen.
struct ImatrixSums {
    std::vector<float> squares; // [columns, matrices]
    std::vector<float> counts;  // [matrices], or one for all
};

// How much each column of a matrix matters: the mean square of what it is multiplied with.
class Imatrix {
public:
    // llama.cpp's GGUF format, or its older .dat.
    static Imatrix load(const std::string & path);

    // [n_cols, n_last]; null where nothing is known about the tensor. A size that is not the tensor's is an Error.
    const float * find(const PlannedTensor & tensor) const;

    size_t                           size() const { return values_.size(); }
    const std::vector<std::string> & datasets() const { return datasets_; }
    int64_t                          n_chunks() const { return n_chunks_; }
    const std::string &              path() const { return path_; }

private:
    void load_gguf(const std::string & path);
    void load_dat(const std::string & path);
    void check() const;

    std::string                                         path_;
    std::unordered_map<std::string, std::vector<float>> values_;
    std::vector<std::string>                            datasets_;
    int64_t                                             n_chunks_ = 0;
};

// Writes llama.cpp's GGUF format.
void save_imatrix(const std::string & path, bool force, const std::unordered_map<std::string, ImatrixSums> & sums,
                  const std::string & dataset, uint32_t n_chunks, uint32_t chunk_size);

} // namespace buoy
