#pragma once

#include "buoy/eval.h"
#include "run-flags.h"

#include <string>
#include <vector>

struct EvalParams : RunParams {
    EvalParams() {
        generate.n_predict = 32;
        seed               = 1;
    }

    buoy::QaParams           qa; // but for what RunParams has
    std::vector<std::string> edits;
    std::vector<std::string> methods;        // of frontier, "NAME: SETTINGS"
    size_t                   n_passages = 5; // the same

    std::vector<std::string> files; // of summary and merge
    std::string              output;
    bool                     force = false;
    bool                     json  = false;
    bool                     csv   = false;
    std::string              figures; // directory
    bool                     verbose = false;
    std::string              log_file;
};

void add_qa_flags(FlagTable & table, EvalParams & params);
void add_summary_flags(FlagTable & table, EvalParams & params);
void add_merge_flags(FlagTable & table, EvalParams & params);
void add_frontier_flags(FlagTable & table, EvalParams & params);

// What several flags of qa decide together; throws buoy::Error where they contradict each other.
void settle_questions(EvalParams & params);
