#pragma once

#include "measure.h"
#include "params.h"

#include <optional>
#include <string>
#include <vector>

// Prints rows as they come, in the chosen format. Columns of a Markdown table are the model and its weights, what was run, what
// else varies, and what was measured; the other formats carry everything.
class Table {
public:
    explicit Table(const BenchParams & params);
    ~Table(); // ends the JSON array

    Table(const Table &)             = delete;
    Table & operator=(const Table &) = delete;

    // peak: of the machine with as many threads, where a row's share of it is wanted
    void add(const Case & one, const Measurement & measured, const std::optional<buoy::MachinePeak> & peak);

    // What --growth is asked for: how time and memory grew from the first row to the others, as lines below the table.
    void finish_growth() const;

private:
    struct Row {
        Case                             one;
        Measurement                      measured;
        std::optional<buoy::MachinePeak> peak;
    };

    void                     print_markdown_head();
    void                     print_markdown(const Row & row);
    std::vector<std::string> cells(const Row & row) const;

    const BenchParams &      params_;
    const bool               recorded_; // some rows with --attn
    std::vector<size_t>      shown_;    // indices into parameters()
    std::vector<std::string> heads_;
    std::vector<size_t>      widths_;
    std::vector<Row>         rows_;
};

// A table of its own, a row for each number of threads.
void print_peaks(const std::vector<buoy::MachinePeak> & peaks, OutputFormat format);
