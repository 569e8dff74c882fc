// Two ways of decoding, measured.
#include "buoy/frontier.h"

#include <cstdio>
#include <string>

void example_frontier(const std::string & dir) {
    buoy::FrontierParams params;
    params.model              = dir + "/model.gguf";
    params.data               = dir + "/questions.jsonl";
    params.context.n_ctx      = 512;
    params.generate.n_predict = 8;
    params.methods            = {{"exact", ""}, {"threshold", "threshold=0.01"}};

    const buoy::FrontierReport report = buoy::measure_frontier(params);
    std::printf("%s", buoy::analysis::to_text(report.table).c_str());
}
