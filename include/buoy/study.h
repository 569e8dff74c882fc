#pragma once

#include "buoy/figure.h"
#include "buoy/index-ranges.h"
#include "buoy/table.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// Recordings to numbers, tables and figures. docs/metrics.md defines the metrics.

namespace buoy::analysis {

// Which positions are anchors.
struct AnchorRule {
    enum class Kind {
        automatic, // as the paper: bos for causal models, code for the others
        std,       // above mean + amount · standard deviation over all columns
        above,     // above the mean of the other columns + amount
        code,      // as the authors' code: above:3, or the largest column where none is; results call that a fallback
        bos,       // position 0
        top_k,     // the largest k
    };

    Kind   kind   = Kind::std;
    double amount = 3;
    size_t k      = 1;

    std::string text() const;                                                              // as parse_rule() reads it
    bool        has_threshold() const { return kind == Kind::std || kind == Kind::above; } // else it always names some
};

// auto, code, std, std:2.5, above:0.1, bos, top-k:4
AnchorRule parse_rule(const std::string & text);

// What is asked of recordings; each metric uses what concerns it.
struct StudyParams {
    std::vector<std::string>  paths;
    std::vector<std::string>  labels; // instead of the models' names, one for each path; empty: none
    IndexRanges               layers; // empty: all recorded
    std::optional<int32_t>    step;
    std::optional<int32_t>    head; // qk: of the maps; the mean of all otherwise
    std::optional<AnchorRule> rule;
    std::string               gold       = "gold"; // name of a region
    double                    min_recall = 50;     // retrieval: percent, answers at or below are left out
    uint32_t                  seed       = 0;      // of the bootstrap
};

// A metric, and which of the parameters it heeds besides paths and labels.
struct StudyMetric {
    const char * name;
    const char * help;
    bool         layers       = true;
    bool         step         = false;
    bool         rule         = false;
    bool         gold         = false;
    bool         min_recall   = false;
    bool         head         = false;
    bool         seed         = false;
    size_t       n_recordings = 0; // that it is about; 0: any number
};

std::vector<StudyMetric> study_metrics();

// What a metric finds, in every form in which it is shown.
struct StudyResult {
    std::vector<Table> tables; // to be read
    Table              data;   // for CSV
    std::string        json;   // one line
    figure::Figure     figure;
    std::vector<std::string>
        conclusions;                // what the numbers come to, a sentence or two for each model, computed from them
    std::vector<std::string> notes; // what a reader must know, one line each
};

StudyResult study(const std::string & metric, const StudyParams & params);

} // namespace buoy::analysis
