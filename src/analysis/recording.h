#pragma once

#include "buoy/record.h"
#include "io/npz-reader.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace buoy::analysis {

// Letters: S steps, T positions, L layers, H heads, Q query rows, K keys, D head dimension.

struct Array {
    std::vector<size_t> shape;
    std::vector<float>  values;
};

// A run.npz, open: what is small is read and checked, activations are read one member at a time.
class Recording {
public:
    static Recording open(const std::string & path);

    const std::string &    path() const { return file_.path(); }
    const nlohmann::json & meta() const { return meta_; }
    const std::string &    model() const { return model_; } // its name, else its file's

    AttentionKind attention() const { return attention_; }
    int32_t       block_length() const { return block_length_; }
    bool          shift() const { return shift_; } // row i predicts token i + 1
    int32_t       mask_id() const { return mask_id_; }

    size_t n_prompt() const { return n_prompt_; }
    size_t n_positions() const { return n_positions_; } // T
    size_t n_steps() const { return n_steps_; }         // S, recorded or not

    // The sequence before a step; step S: as it ended. -1 where a position was not yet there.
    int32_t                          token(size_t step, size_t position) const;
    const std::vector<std::string> & pieces() const { return pieces_; } // of the sequence as it ended
    const std::vector<int32_t> &     special_ids() const { return special_ids_; }
    const std::vector<Region> &      regions() const { return regions_; }
    const Region *                   region(const std::string & name) const;

    std::vector<int32_t> unmask_step() const; // [T]
    std::vector<float>   confidence() const;  // [S, T]

    const std::vector<int32_t> & steps() const { return steps_; } // those recorded, ascending
    const std::vector<int32_t> & layers() const { return layers_; }
    TapReduce                    reduce() const { return reduce_; }
    const std::vector<int32_t> & rows(int32_t step) const; // positions of the query rows of a recorded step

    bool  has(Tap tap) const;
    Array read(Tap tap, int32_t step, int32_t layer) const; // its shape fits the run

    // Fails with what the metric needs and the flags that record it.
    void need(Tap tap, const std::string & metric) const;
    void need_reduce(std::initializer_list<TapReduce> any, const std::string & metric) const;

private:
    explicit Recording(NpzReader file) : file_(std::move(file)) {}

    void read_meta();
    void read_arrays();
    void check_shape(Tap tap, int32_t step, const Array & array, const std::string & name) const;

    NpzReader                         file_;
    nlohmann::json                    meta_;
    std::string                       model_;
    AttentionKind                     attention_    = AttentionKind::causal;
    int32_t                           block_length_ = 0;
    bool                              shift_        = false;
    int32_t                           mask_id_      = -1;
    size_t                            n_prompt_     = 0;
    size_t                            n_positions_  = 0;
    size_t                            n_steps_      = 0;
    std::vector<std::string>          pieces_;
    std::vector<int32_t>              special_ids_;
    std::vector<Region>               regions_;
    std::vector<std::string>          taps_; // folders
    TapReduce                         reduce_ = TapReduce::heads;
    std::vector<int32_t>              steps_;
    std::vector<int32_t>              layers_;
    std::vector<int32_t>              tokens_; // [S+1, T]
    std::vector<std::vector<int32_t>> rows_;   // of each recorded step
};

} // namespace buoy::analysis
