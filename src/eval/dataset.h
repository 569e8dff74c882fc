#pragma once

#include "eval/item.h"

#include <string>
#include <vector>

namespace buoy {

struct QaDataset {
    std::string         name; // of the file, without its directory
    std::string         hash; // of the text, unpacked
    std::vector<QaItem> items;
};

// One JSON object a line, or gzip of that: {"question" | "query" | "input", "answers" | "answer" | "output",
// "ctxs" | "passages" | "passage": [{"title", "text" | "segment", "isgold"}], "id"}. A byte order mark, empty lines and carriage returns do
// not matter. Throws Error naming file and line.
QaDataset load_dataset(const std::string & path);
QaDataset parse_dataset(const std::string & path, const std::string & text);

} // namespace buoy
