// What an evaluation reads: its questions, and results of an earlier run.

#include "mutate.h"
#include "target.h"

#include "eval/dataset.h"
#include "eval/result-file.h"

namespace buoy::fuzz {

namespace {

std::vector<std::string> dataset_seeds() {
    return {
        R"({"question": "Who?", "answers": ["Ada", "A. L."], "ctxs": [{"title": "t", "text": "Ada did", "isgold": true}, {"text": "no"}]}
{"query": "q", "answer": "x", "passages": ["x y", {"title": "t", "segment": "z"}], "id": 7}
)",
        R"({"input": "q", "output": [{"answer": "a", "provenance": [{"title": "t"}]}, {"answer": ["b", "c"]}], "passage": []}
)"};
}

void run_dataset(const std::string & input) {
    for (const QaItem & item : parse_dataset("fuzz.jsonl", input).items) {
        demand(!item.question.empty() && !item.answers.empty(), "an item has a question and an answer");
    }
}

std::vector<std::string> result_seeds() {
    QaHeader header;
    header.settings  = {{"model", "m"}, {"n", 3}, {"nested", {{"a", {1, 2}}}}};
    header.n_items   = 2;
    header.n_results = 2;
    QaResult result;
    result.model     = "m";
    result.condition = "passages=1";
    result.id        = "1";
    return {header_line(header) + result_line(result)};
}

void run_results(const std::string & input) {
    ResultReader reader(scratch_file("fuzz.results.jsonl", input));
    QaResult     result;
    while (reader.next(result)) {
        demand(reader.line().ends_with('\n'), "a line that counts is complete");
    }
    demand(reader.n_bytes() <= input.size(), "no more is read than there is");
    check_same_settings(reader.header(), reader.path(), reader.header());
}

} // namespace

Target dataset_target() { return {"dataset", dataset_seeds, run_dataset, mutate_json}; }
Target results_target() { return {"results", result_seeds, run_results, mutate_json}; }

} // namespace buoy::fuzz
