#pragma once

#include "buoy/eval.h"

#include <functional>
#include <string>
#include <vector>

// What ways of decoding cost, and what they lose: questions answered by each of them, in one run.

namespace buoy {

// Settings by name, as apply_setting takes them, separated by spaces; none: exact, one position in each pass.
struct FrontierMethod {
    std::string name;
    std::string settings;
};

std::vector<FrontierMethod> frontier_methods();

struct FrontierParams {
    std::string                 model; // GGUF file
    ModelParams                 model_params;
    ContextParams               context;
    GenerateParams              generate;       // what all of them share
    std::string                 data;           // JSONL file of questions, or gzip of that
    size_t                      n_items    = 0; // the first of the dataset; 0: all
    size_t                      n_passages = 5;
    std::string                 form; // template file of the prompt; empty: the standard one
    std::vector<FrontierMethod> methods =
        frontier_methods(); // exact comes first, and what the model can't do is left out
    std::string output;     // a line for each method; those that are there are not measured again

    std::function<bool()>                              stopped;  // asked before every answer
    std::function<void(const FrontierMethod & method)> begins;   // before the first answer of a method that is measured
    std::function<void(size_t n_done, size_t n_all)>   progress; // answers of that method
};

struct FrontierReport {
    bool                     complete = false; // else it was stopped; the same run goes on from there
    analysis::Table          table;            // to be read; also for CSV
    std::string              json;             // one line
    QaFigure                 figure;           // accuracy over rows, and over tokens per second if that is one run's
    std::vector<std::string> left_out;         // methods, each with the reason
};

FrontierReport measure_frontier(const FrontierParams & params);

} // namespace buoy
