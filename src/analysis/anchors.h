#pragma once

#include "buoy/study.h"

#include <cstddef>
#include <string>
#include <vector>

// What is said about one distribution of received attention A_j, j = 0 … K-1 (arXiv 2601.07894, 2510.15731).

namespace buoy::analysis {

// What the automatic rule is for a model.
AnchorRule resolve_rule(const AnchorRule & rule, bool causal);

// Positions that the rule names, ascending; may be none.
std::vector<size_t> find_above(const std::vector<double> & received, const AnchorRule & rule);

// The same, or the largest column where the rule names none. Empty only without columns.
std::vector<size_t> anchors_of(const std::vector<double> & received, const AnchorRule & rule);

size_t largest(const std::vector<double> & received); // the first of them

// Fraction of the attention that these positions receive.
double share_of(const std::vector<double> & received, const std::vector<size_t> & positions);

// exp of the entropy over the number of columns: 1 where all receive the same, 1/K where one receives all.
double effective_share(const std::vector<double> & received);

// Of two ascending sets; 1 where both are empty.
double jaccard(const std::vector<size_t> & a, const std::vector<size_t> & b);
size_t n_common(const std::vector<size_t> & a, const std::vector<size_t> & b);

// Half the sum of absolute differences of the two after each is normalised; columns that one does not have count as 0.
double total_variation(const std::vector<double> & a, const std::vector<double> & b);

} // namespace buoy::analysis
