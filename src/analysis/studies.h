#pragma once

#include "analysis/study.h"

// The metrics, one function each. docs/metrics.md defines them.

namespace buoy::analysis {

Findings study_absorption(const StudyOptions & options);
Findings study_temporal(const StudyOptions & options);
Findings study_floating(const StudyOptions & options);
Findings study_sinks(const StudyOptions & options);
Findings study_depth(const StudyOptions & options);
Findings study_qk(const StudyOptions & options);
Findings study_retrieval(const StudyOptions & options);
Findings study_rollout(const StudyOptions & options);
Findings study_compare(const StudyOptions & options); // of two recordings

} // namespace buoy::analysis
