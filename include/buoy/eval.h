#pragma once

#include "buoy/edit.h"
#include "buoy/figure.h"
#include "buoy/generate.h"
#include "buoy/table.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

// Questions with and without passages, asked of models under conditions, and the answers scored. docs/evaluation.md has the formats.

namespace buoy {

// An edit of the attention as a condition of its own, "edit=NAME".
struct QaEdit {
    std::string           name;
    std::vector<EditSpec> specs;
};

// The conditions that a run is about, besides closed book.
struct QaPlan {
    bool                closed_book = true;
    std::vector<size_t> passages    = {5}; // the largest is the base of those below
    std::vector<size_t> gold_positions;
    bool                all_positions = false; // every one of the base's
    std::vector<size_t> noise;
    bool                shuffle     = false;
    bool                drop_gold   = false;
    bool                repeat_gold = false;
    std::vector<double> truncate_gold;
    bool                contradict = false;
    std::vector<QaEdit> edits;
};

// A ready edit's name, "NAME: SPEC", or a SPEC, which is its own name then. Specs of the same name are one condition.
std::vector<QaEdit> parse_qa_edits(const std::vector<std::string> & texts);

// The names of ready edits, with what they do.
std::vector<std::pair<std::string, std::string>> ready_edit_names();

struct QaProgress {
    std::string model;
    size_t      n_done    = 0; // answers, with those that the file had
    size_t      n_resumed = 0; // of them
    size_t      n_all     = 0;
};

// Everything that an evaluation is.
struct QaParams {
    std::vector<std::string> models; // GGUF files
    ModelParams              model;  // but for the path
    ContextParams            context;
    GenerateParams           generate;
    bool                     ignore_eos = false;
    std::string              data;         // JSONL file of questions, or gzip of that
    size_t                   n_items  = 0; // the first of the dataset; 0: all
    size_t                   shard    = 0; // of them, those whose index is that, modulo n_shards
    size_t                   n_shards = 1;
    std::string              form;        // template file of the prompt; empty: the standard one
    bool                     raw = false; // no chat template
    QaPlan                   plan;
    bool                     attention = false; // measure where it goes while the answers are written
    std::string              output; // result file; empty: named after dataset and settings, in the working directory

    std::function<bool()>                   stopped; // asked before every answer
    std::function<void(const QaProgress &)> progress;
};

class Evaluation {
public:
    // Loads the questions and settles the conditions; throws Error where they can't be asked.
    explicit Evaluation(const QaParams & params);
    ~Evaluation();
    Evaluation(const Evaluation &)             = delete;
    Evaluation & operator=(const Evaluation &) = delete;

    const std::string & output() const;

    // Asks every model every question under every condition that applies, and writes the result file, from where it ends. False: it was
    // stopped before the end; the same run goes on from there.
    bool run();

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

// Puts the shards of a run together; the file is the one that a run without shards writes. Throws Error where they differ in their settings, or
// one is missing, comes twice or is not complete.
void merge_results(const std::vector<std::string> & paths, const std::string & output, bool force);

struct QaFigure {
    std::string    name; // of a file
    figure::Figure figure;
};

// What a result file says, in every form in which it is shown.
struct QaReport {
    std::vector<analysis::Table> tables;         // to be read, in percent
    analysis::Table              data;           // for CSV: a row for each cell and difference, shares of 1
    std::string                  json;           // one line
    size_t                       n_results  = 0; // answers
    size_t                       n_expected = 0; // of a complete file
    std::vector<QaFigure>        figures;
    std::vector<std::string>     conclusions; // what each edit of the attention did to each model, a sentence each
};

QaReport report_results(const std::string & path);

void make_figure_directory(const std::string & directory);

// DIR/NAME.svg and DIR/NAME.png of each; the directory is made where there is none.
void write_qa_figures(const std::string & directory, const std::vector<QaFigure> & figures);

} // namespace buoy
