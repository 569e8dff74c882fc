#pragma once

#include "analysis/study.h"

// The metrics, one function each. docs/metrics.md defines them.

namespace buoy::analysis {

Findings study_absorption(const StudyParams & params);
Findings study_temporal(const StudyParams & params);
Findings study_floating(const StudyParams & params);
Findings study_sinks(const StudyParams & params);
Findings study_depth(const StudyParams & params);
Findings study_targets(const StudyParams & params);
Findings study_drift(const StudyParams & params);
Findings study_norms(const StudyParams & params);
Findings study_qk(const StudyParams & params);
Findings study_retrieval(const StudyParams & params);
Findings study_rollout(const StudyParams & params);
Findings study_compare(const StudyParams & params); // of two recordings

} // namespace buoy::analysis
