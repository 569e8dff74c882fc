#pragma once

#include "buoy/eval.h"
#include "eval/item.h"

#include <cstddef>
#include <fstream>
#include <string>
#include <vector>

namespace buoy {

// A result file is one JSON object a line: what the run was made with, then one line for each answer, in the order of models, items,
// conditions. It holds no times, so that runs with the same settings write the same bytes.

// The first line.
struct QaHeader {
    nlohmann::ordered_json settings;
    size_t                 n_items   = 0; // of the dataset, in all shards
    size_t                 n_results = 0; // lines that the file has when it is complete
    size_t                 shard     = 0; // this file has the items whose index is that, modulo n_shards
    size_t                 n_shards  = 1;
};

std::string header_line(const QaHeader & header);
std::string result_line(const QaResult & result);

// Throws Error that begins with the second file's name and says which setting differs, where one does.
void check_same_settings(const QaHeader & expected, const std::string & path, const QaHeader & found);

class ResultReader {
public:
    // Throws Error where it is no result file.
    explicit ResultReader(const std::string & path);

    const std::string & path() const { return path_; }
    const QaHeader &    header() const { return header_; }

    // False at the end; a line that was not written to its end is the end, too.
    bool next(QaResult & result);

    const std::string & line() const { return line_; }       // of the last result, with its line break
    size_t              n_read() const { return n_read_; }   // results
    uint64_t            n_bytes() const { return n_bytes_; } // of the complete lines read

private:
    bool next_line();

    std::string   path_;
    std::ifstream in_;
    QaHeader      header_;
    std::string   line_;
    size_t        n_read_  = 0;
    uint64_t      n_bytes_ = 0;
};

// A result file that is being written, by one process at a time.
class ResultWriter {
public:
    // Goes on where the file ends, which must have the same header; begins it with the first answer where there is none.
    ResultWriter(const std::string & path, const QaHeader & header);
    ~ResultWriter();
    ResultWriter(const ResultWriter &)             = delete;
    ResultWriter & operator=(const ResultWriter &) = delete;

    // The answers that the file had already, without what they measured.
    const std::vector<QaResult> & found() const { return found_; }

    void append(const QaResult & result); // the line is with the system when this returns
    void finish();                        // on the disk

private:
    void open();
    void resume(const QaHeader & header);
    void write(const std::string & text);

    std::string           path_;
    std::string           header_; // still to be written
    int                   fd_ = -1;
    std::vector<QaResult> found_;
};

} // namespace buoy
