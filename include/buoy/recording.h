#pragma once

#include "buoy/record.h"

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <string>
#include <utility>
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

    const std::string & path() const;
    const std::string & model() const { return model_; } // its name, else its file's
    std::string         meta_json() const;               // meta.json; docs/recording.md has its fields

    AttentionKind attention() const { return attention_; }
    int32_t       block_length() const { return block_length_; }
    bool          shift() const { return shift_; } // row i predicts token i + 1
    int32_t       mask_id() const { return mask_id_; }

    size_t n_prompt() const { return n_prompt_; }
    size_t n_positions() const { return n_positions_; } // T
    size_t n_steps() const { return n_steps_; }         // S, recorded or not

    // The sequence before a step; step S: as it ended. -1 where a position was not yet there.
    int32_t                          token(size_t step, size_t position) const;
    const std::vector<std::string> & pieces() const { return pieces_; }           // of the sequence as it ended
    const std::vector<int32_t> &     special_ids() const { return special_ids_; } // ascending
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

    // Fails with what the metric needs and the settings that record it.
    void need(Tap tap, const std::string & metric) const;
    void need_reduce(std::initializer_list<TapReduce> any, const std::string & metric) const;

    struct Source; // the open file, for the library itself
    const Source & source() const { return *source_; }

private:
    explicit Recording(std::shared_ptr<Source> source) : source_(std::move(source)) {}

    void read_meta();
    void read_arrays();
    void check_shape(Tap tap, int32_t step, const std::vector<size_t> & shape, const std::string & name) const;

    std::shared_ptr<Source>           source_;
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

// A recording whose run was killed or still goes on has no directory of its members yet.
enum class Unfinished { no, left, in_use };
Unfinished check_unfinished(const std::string & path);

// What a recording holds, finished or not: lines to be read, or one line of JSON with all of meta.json.
std::string recording_text(const std::string & path);
std::string recording_json(const std::string & path);

// Writes meta.json, or an array as CSV: a matrix line by line, a list one number to a line. Of an array with three dimensions the
// matrix at `index`, or, for a negative one, all of them, each line led by its index.
void write_member(const std::string & path, const std::string & member, int64_t index, std::ostream & out);

} // namespace buoy::analysis
