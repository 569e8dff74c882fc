#include "analysis/studies.h"
#include "buoy/message.h"
#include "io/json-file.h"

namespace buoy::analysis {

namespace {

struct Entry {
    StudyMetric metric;
    Findings (*study)(const StudyParams &);
};

const Entry entries[] = {
    {{.name = "absorption",
      .help = "share of the attention that anchors receive, by layer",
      .step = true,
      .rule = true,
      .seed = true},
     study_absorption},
    {{.name = "temporal", .help = "received attention by position and step", .step = true, .rule = true},
     study_temporal},
    {{.name = "floating", .help = "in which steps there are anchors, and how they move", .rule = true, .seed = true},
     study_floating},
    {{.name = "sinks", .help = "which tokens are sinks, what they are, and how they move", .rule = true, .seed = true},
     study_sinks},
    {{.name = "depth",
      .help = "attention on structure and on content, by layer",
      .step = true,
      .gold = true,
      .seed = true},
     study_depth},
    {{.name = "targets",
      .help = "attention on the prompt, on written tokens and on masks, and how far it reaches, by layer",
      .seed = true},
     study_targets},
    {{.name = "drift", .help = "how patterns, keys and values change from step to step, by layer", .seed = true},
     study_drift},
    {{.name = "norms",
      .help = "norms of the anchors' values, and the attention they receive weighted by them, by layer",
      .rule = true,
      .seed = true},
     study_norms},
    {{.name = "qk",
      .help = "how q·k of anchors and other keys differs, by angle and norm; maps of one layer",
      .step = true,
      .rule = true,
      .head = true,
      .seed = true},
     study_qk},
    {{.name = "retrieval", .help = "which heads copy from the gold span", .gold = true, .min_recall = true},
     study_retrieval},
    {{.name = "rollout", .help = "flow of attention between regions", .step = true, .gold = true}, study_rollout},
    {{.name         = "compare",
      .help         = "how the patterns and anchors of two recordings differ",
      .step         = true,
      .rule         = true,
      .n_recordings = 2},
     study_compare},
};

} // namespace

std::vector<StudyMetric> study_metrics() {
    std::vector<StudyMetric> all;
    for (const Entry & entry : entries) {
        all.push_back(entry.metric);
    }
    return all;
}

StudyResult study(const std::string & metric, const StudyParams & params) {
    if (!params.labels.empty() && params.labels.size() != params.paths.size()) {
        fail("`labels`: ", params.labels.size(), " labels for ", params.paths.size(), " recordings");
    }
    for (const Entry & entry : entries) {
        if (metric == entry.metric.name) {
            Findings found            = entry.study(params);
            found.json["conclusions"] = found.conclusions;
            found.json["notes"]       = found.notes;
            return {found.tables, found.data, json_text(found.json), found.figure, found.conclusions, found.notes};
        }
    }
    fail("there is no metric ", in_quotes(metric));
}

} // namespace buoy::analysis
