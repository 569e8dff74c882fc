#pragma once

#include "buoy/eval.h"
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

// The columns in their order. Throws Error where a gold position is not among the passages, or a name comes twice.
std::vector<QaCondition> make_conditions(const QaPlan & plan);

// What is shown of an item.
struct QaShown {
    std::vector<QaPassage> passages;
    std::string            false_answer;
};

class QaConditions {
public:
    // The dataset is where passages of other questions come from; it must outlive this.
    QaConditions(const std::vector<QaItem> & items, uint64_t seed);

    // Can it be asked like that? Not without a gold passage, or where several can't begin at that place, or without an answer in it to be replaced, where the condition is about
    // it; nor, where passages without an answer are drawn, if every text has one.
    bool applies(const QaCondition & condition, const QaItem & item) const;

    // What is drawn depends on the seed and the item's id alone. Throws Error where the dataset has too few other passages.
    QaShown show(const QaCondition & condition, const QaItem & item) const;

private:
    std::vector<QaPassage> base(const QaItem & item, size_t n_passages) const;
    std::vector<QaPassage> noise(const QaItem & item, size_t n_passages) const;
    std::vector<QaPassage> gold_at(const QaItem & item, size_t n_passages, size_t position) const;
    QaShown                contradicted(const QaItem & item, std::vector<QaPassage> passages) const;
    std::string            other_answer(const QaItem & item) const;

    const std::vector<QaItem> & items_;
    std::vector<std::string>    first_answers_; // of each item, normalised
    uint64_t                    seed_;
};

} // namespace buoy
