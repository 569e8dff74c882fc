#pragma once

#include "buoy/generate.h"
#include "buoy/record.h"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace buoy {

struct QaPassage {
    std::string title; // may be empty
    std::string text;
    bool        gold = false; // holds the answer
};

// One question of a dataset.
struct QaItem {
    size_t                 index = 0; // in the dataset
    std::string            id;        // the dataset's, else index + 1
    std::string            question;
    std::vector<QaPassage> passages;
    bool flagged = false; // the dataset says which passages are gold; else those that have an answer in them
    std::vector<std::string> answers; // any of them is right
};

// A question under one condition, as the model gets it.
struct QaPrompt {
    std::vector<QaPassage> passages; // as shown
    std::vector<int32_t>   tokens;
    int32_t                n_predict = 0;
    // bos, question, doc1 … docN, gold (those docs that are), answer (n_predict positions), other; none without positions
    std::vector<Region> regions;
    bool                cut      = false; // passages lost words because the context is too short
    bool                too_long = false; // not even the question fits: there is no answer
    std::string         false_answer;     // what a contradicting passage says; empty: there is none
};

struct QaScores {
    double acc = 0; // a normalised right answer is a part of the normalised prediction
    double f1  = 0; // over normalised words, the best of the right answers
    double em  = 0; // the normalised texts are equal
};

// Looks at one answer while it is generated.
class QaProbe {
public:
    virtual ~QaProbe() = default;

    virtual void attach(GenerateParams & params) = 0;

    // What the item's line keeps as "attention"; null: nothing. Numbers must not depend on time or threads.
    virtual nlohmann::ordered_json result(const Generation & generation, const std::string & prediction,
                                          const QaScores & scores) = 0;
};

// All four outlive the probe.
using QaProbeMaker = std::function<std::unique_ptr<QaProbe>(Context & context, const Vocab & vocab, const QaItem & item,
                                                            const QaPrompt & prompt)>;

// One line of a result file.
struct QaResult {
    std::string            model;
    std::string            condition;
    size_t                 item = 0; // index in the dataset
    std::string            id;
    size_t                 n_passages = 0;
    std::vector<size_t>    gold; // which of the passages shown, from 1
    std::string            prediction;
    QaScores               scores;
    bool                   cut      = false;
    bool                   too_long = false;
    std::string            false_answer;   // that a contradicting passage gave; empty: none did
    bool                   misled = false; // it is part of the prediction
    nlohmann::ordered_json attention;      // of the probe
};

} // namespace buoy
