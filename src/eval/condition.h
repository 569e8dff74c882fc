#pragma once

#include "buoy/edit.h"
#include "eval/item.h"

#include <cstdint>
#include <string>
#include <vector>

namespace buoy {

// What is done to a question before it is asked: a column of the table.
struct QaCondition {
    enum class Kind {
        closed_book,   // no passages
        passages,      // the first n
        gold_position, // n passages in all, the gold ones from that place on
        noise,         // the gold ones, and n of other questions around them
        shuffle,
        drop_gold,
        repeat_gold,   // once more at the end
        truncate_gold, // its first words
        contradict,    // a copy of the gold one with another answer in it
        edited,        // the attention is
    };

    std::string name;
    Kind        kind       = Kind::passages;
    size_t      n_passages = 0;   // passages; the number shown for gold_position; others: the base they start from
    size_t      value      = 0;   // gold_position: from 1; noise: passages of other questions
    double      share      = 0.0; // truncate_gold: words kept
    std::vector<EditSpec> edits;  // edited; may name the regions of a QaPrompt
};

// An edit of the attention as a condition of its own, "edit=NAME".
struct QaEdit {
    std::string           name;
    std::vector<EditSpec> specs;
};

} // namespace buoy
