#include "buoy/edit.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace buoy {

EditComparison compare_runs(const Generation & unedited, const Generation & edited) {
    EditComparison                                out;
    const std::vector<int32_t> &                  a = unedited.sequence;
    const std::vector<int32_t> &                  b = edited.sequence;
    std::map<std::pair<int32_t, int32_t>, double> before; // (step, position)
    for (size_t i = 0; i < std::max(a.size(), b.size()); i++) {
        if (i >= a.size() || i >= b.size() || a[i] != b[i]) { // a position that one of them does not have counts
            out.first_changed = out.n_changed == 0 ? static_cast<int32_t>(i) : out.first_changed;
            out.n_changed++;
        }
    }
    for (const StepReport & step : unedited.steps) {
        for (const auto & [position, confidence] : step.confidence) {
            before[{step.step, position}] = static_cast<double>(confidence);
        }
    }
    for (const StepReport & step : edited.steps) {
        for (const auto & [position, confidence] : step.confidence) {
            const auto other = before.find({step.step, position});
            if (other != before.end()) {
                const auto now = static_cast<double>(confidence);
                out.n_scored++;
                out.confidence_unedited += other->second;
                out.confidence_edited += now;
                out.confidence_change += std::abs(now - other->second);
            }
        }
    }
    const auto n = static_cast<double>(std::max<int64_t>(out.n_scored, 1));
    out.confidence_unedited /= n;
    out.confidence_edited /= n;
    out.confidence_change /= n;
    return out;
}

} // namespace buoy
