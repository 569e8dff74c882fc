#pragma once

#include "buoy/eval.h"
#include "eval/condition.h"
#include "eval/dataset.h"
#include "eval/result-file.h"
#include "eval/template.h"

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace buoy {

struct QaModel {
    std::string              name; // in the results
    std::string              path;
    std::string              hash;
    std::optional<ModelMode> mode; // of one that has two
    bool                     speculate = false;
};

// Names are those of the files, with a number where they would be the same. "FILE:ar", "FILE:diffusion" and "FILE:spec" are the modes
// of one file, as models of their own.
std::vector<QaModel> name_models(const std::vector<std::string> & paths);

// Everything that a run is.
struct QaRun {
    std::vector<QaModel>     models;
    ModelParams              model;
    ContextParams            context;
    GenerateParams           generate;
    bool                     ignore_eos = false;
    const QaDataset *        dataset    = nullptr;
    size_t                   n_items    = 0; // the first of the dataset
    size_t                   shard      = 0; // of them, those whose index is that, modulo n_shards
    size_t                   n_shards   = 1;
    PromptTemplate           form       = PromptTemplate::standard();
    bool                     raw        = false; // no chat template
    std::vector<QaCondition> conditions;
    std::string              output;     // result file
    QaProbeMaker             probe;      // may be empty
    std::string              probe_name; // what tells its settings; part of the run's

    std::function<bool()>                   stopped; // asked before every answer
    std::function<void(const QaProgress &)> progress;
};

// A result file's name that tells runs with different settings apart: dataset, hash, shard.
std::string default_output(const QaRun & run);

// Asks every model every question under every condition that applies, and writes the result file, from where it ends. False: it was
// stopped before the end.
bool run_qa(const QaRun & run);

} // namespace buoy
