// Questions asked of a model, and the table of its answers.
#include "buoy/eval.h"

#include <cstdio>
#include <string>

void example_eval(const std::string & dir) {
    buoy::QaParams params;
    params.models             = {dir + "/model.gguf"};
    params.data               = dir + "/questions.jsonl";
    params.output             = dir + "/results.jsonl";
    params.context.n_ctx      = 512;
    params.generate.n_predict = 4;
    params.plan.passages      = {1};
    buoy::Evaluation evaluation(params);
    if (evaluation.run()) {
        const buoy::QaReport report = buoy::report_results(evaluation.output());
        std::printf("%s", buoy::analysis::to_text(report.tables[0]).c_str());
    }
}
