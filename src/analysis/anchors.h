#pragma once

#include "buoy/study.h"

#include <cstddef>
#include <string>
#include <vector>

// What is said about one distribution of received attention A_j, j = 0 … K-1 (arXiv 2601.07894, 2510.15731).

namespace buoy::analysis {

// What the automatic rule is for a model.
AnchorRule resolve_rule(const AnchorRule & rule, bool causal);

// What a rule finds.
struct Anchors {
    std::vector<size_t> positions; // ascending; may be none
    bool fallback = false; // no column meets the threshold: this is the largest one, as the authors' code takes it
    bool named    = false; // the rule names positions whatever they receive (bos, top-k)

    bool         from_rule() const { return !positions.empty() && !fallback && !named; }
    const char * source() const; // none, rule, fallback, named: what JSON and CSV say
    double       found() const;  // 1 where the rule finds an anchor, 0 where not; NaN where it only names positions
};

// Only rule `code` falls back.
Anchors find_anchors(const std::vector<double> & received, const AnchorRule & rule);

// What a figure's legend says of the positions that the rule marks.
std::string mark_label(const AnchorRule & rule);

// The subject of a sentence about them: "the anchors", "the first position"; and about the largest of them.
std::string anchors_text(const AnchorRule & rule);
std::string largest_text(const AnchorRule & rule);

size_t largest(const std::vector<double> & received); // the first of them

// Fraction of the attention that these positions receive.
double share_of(const std::vector<double> & received, const std::vector<size_t> & positions);

// exp of the entropy over the number of columns: 1 where all receive the same, 1/K where one receives all.
double effective_share(const std::vector<double> & received);

// Of two ascending sets; NaN where one of them is empty, for then there is nothing to compare.
double jaccard(const std::vector<size_t> & a, const std::vector<size_t> & b);
size_t n_common(const std::vector<size_t> & a, const std::vector<size_t> & b);

// Half the sum of absolute differences of the two after each is normalised; columns that one does not have count as 0.
double total_variation(const std::vector<double> & a, const std::vector<double> & b);

} // namespace buoy::analysis
