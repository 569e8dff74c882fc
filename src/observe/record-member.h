#pragma once

#include "io/npy.h"
#include "observe/record-choice.h"

#include <string>
#include <vector>

// The members of a recording: their names, shapes and bytes.

namespace buoy {

const char * tap_folder(Tap tap); // attn, scores, q, k, v_norm, resid

std::string rows_name(int32_t step);                               // rows/step_0003.npy
std::string computed_name(int32_t step);                           // computed/step_0003.npy
std::string tap_member_name(Tap tap, int32_t step, int32_t layer); // attn/step_0003/layer_05.npy

NpyType npy_type(RecordType type);

// Shape of a tap's member in a pass of which n_rows query rows are kept and that sees n_keys keys.
std::vector<int64_t> tap_member_shape(Tap tap, const RecordChoice & choice, const ModelInfo & info, int64_t n_rows,
                                      int64_t n_keys);

// An int32 or float32 array as it stands in the file.
std::string array_member(const std::vector<int64_t> & shape, const std::vector<int32_t> & data);
std::string array_member(const std::vector<int64_t> & shape, const std::vector<float> & data);

// What the engine hands over, as it stands in the file. rows: indices of the query rows kept, empty for all; the engine has
// already selected those of patterns and scores.
struct TapMember {
    TapMember(const TapEvent & event, const RecordChoice & choice, const std::vector<int32_t> & rows);

    size_t size() const; // bytes
    // The bytes, and how many finite values became infinite in f16.
    std::string bytes(size_t & n_overflow) const;

private:
    void append(std::string & out, size_t & at, const float * data, size_t n, size_t & n_overflow) const;

    const TapEvent &     event_;
    RecordType           type_;
    std::vector<int32_t> heads_; // kept, of q
    std::vector<int32_t> rows_;  // kept, of q and the residual stream
    std::vector<int64_t> shape_;
};

} // namespace buoy
