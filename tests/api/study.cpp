// A metric of recordings: its tables, numbers and figure.
#include "buoy/study.h"

#include <cstdio>
#include <string>

void example_study(const std::string & dir) {
    for (const buoy::analysis::StudyMetric & metric : buoy::analysis::study_metrics()) {
        std::printf("%s: %s\n", metric.name, metric.help);
    }
    buoy::analysis::StudyParams params;
    params.paths                            = {dir + "/run.npz"};
    params.rule                             = buoy::analysis::parse_rule("top-k:2");
    const buoy::analysis::StudyResult found = buoy::analysis::study("absorption", params);
    std::printf("%s%s\n", buoy::analysis::to_text(found.tables[0]).c_str(), found.json.c_str());
}
