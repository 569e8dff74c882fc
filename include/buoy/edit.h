#pragma once

#include "buoy/index-ranges.h"
#include "buoy/record.h"

#include <cstdint>
#include <string>
#include <vector>

namespace buoy {

// A part of the sequence as an edit names it.
struct PositionTerm {
    enum class Kind {
        range,   // first to last
        region,  // by name
        sinks,   // found in the same step and layer
        anchors, // the sinks of the same layer at an earlier step
    };

    Kind        kind    = Kind::range;
    int32_t     first   = 0;
    int32_t     last    = open_end;
    float       epsilon = 3.0f; // sinks, anchors: standard deviations above the mean
    int32_t     step    = 0;    // anchors
    std::string name;           // region
};

// One edit of the attention: "drop keys=sinks layers=0-7", "bias keys=12-15 heads=3 +4.0".
struct EditSpec {
    std::string               text;        // as typed
    float                     bias = 0.0f; // -inf drops
    std::vector<PositionTerm> keys;
    std::vector<PositionTerm> queries; // empty: all; ranges and regions only
    IndexRanges               layers;
    IndexRanges               heads;
    IndexRanges               steps;
};

// Throws Error naming what can't be read.
EditSpec parse_edit(const std::string & text);

// How often an edit came to something.
struct EditUse {
    int64_t n_places = 0; // (step, layer) pairs in which it changed at least one key
    int64_t n_keys   = 0; // keys changed, summed over those pairs
};

// What `sinks` and `anchors` name, none where there are none: the columns that receive more than mean + epsilon · standard deviation (of the population) over all columns.
// received [H, K], as an EditProbe gets it; a column's value is its mean over heads. Indices into 0 … K-1, ascending.
std::vector<size_t> find_sinks(const float * received, size_t n_head, size_t n_keys, float epsilon);

// Carries edits through one run.
class AttentionEditor {
public:
    // n_positions: prompt and answer; n_steps: the most the run may take. Throws Error where an edit names a layer, head, step,
    // position or region that is not there.
    AttentionEditor(std::vector<EditSpec> specs, const ModelInfo & info, const std::vector<Region> & regions,
                    int32_t n_positions, int32_t n_steps);
    ~AttentionEditor();
    AttentionEditor(const AttentionEditor &)             = delete;
    AttentionEditor & operator=(const AttentionEditor &) = delete;

    // Sets the edits of that step; the request must not outlive the editor.
    void prepare(int32_t step, ForwardRequest & request);
    // The same, in front of what the parameters call already.
    void attach(GenerateParams & params);

    const std::vector<EditSpec> & specs() const;
    const std::vector<EditUse> &  uses() const; // one for each edit

private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

// What edits changed: a run without them against one with them, of the same prompt, settings and seed.
struct EditComparison {
    int64_t n_changed     = 0;  // positions that hold different tokens, or that only one run has
    int32_t first_changed = -1; // the first of them
    // over the (step, position) pairs that both runs scored
    int64_t n_scored            = 0;
    double  confidence_unedited = 0.0; // mean
    double  confidence_edited   = 0.0;
    double  confidence_change   = 0.0; // mean absolute difference
};

EditComparison compare_runs(const Generation & unedited, const Generation & edited);

} // namespace buoy
