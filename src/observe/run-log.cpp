#include "observe/run-log.h"

#include <algorithm>
#include <limits>

namespace buoy {

RunLog::RunLog(std::vector<int32_t> initial, int32_t mask_id)
    : initial_(std::move(initial)), current_(initial_), mask_id_(mask_id) {}

void RunLog::add(const StepReport & report, const std::vector<int32_t> & tokens) {
    std::vector<std::pair<int32_t, int32_t>> changes;
    for (size_t i = 0; i < tokens.size(); i++) {
        if (i >= current_.size() || tokens[i] != current_[i]) {
            changes.emplace_back(static_cast<int32_t>(i), tokens[i]);
        }
    }
    current_ = tokens;
    changes_.push_back(std::move(changes));
    confidence_.push_back(report.confidence);
}

std::vector<int32_t> RunLog::tokens() const {
    std::vector<int32_t> row = initial_;
    row.resize(current_.size(), -1);
    std::vector<int32_t> out = row;
    out.reserve((changes_.size() + 1) * row.size());
    for (const auto & changes : changes_) {
        for (const auto & [position, id] : changes) {
            row[static_cast<size_t>(position)] = id;
        }
        out.insert(out.end(), row.begin(), row.end());
    }
    return out;
}

std::vector<int32_t> RunLog::unmask_step() const {
    std::vector<int32_t> out(current_.size(), -2);
    for (size_t i = 0; i < initial_.size(); i++) {
        if (mask_id_ < 0 || initial_[i] != mask_id_) {
            out[i] = -1;
        }
    }
    for (size_t step = 0; step < changes_.size(); step++) {
        for (const auto & [position, id] : changes_[step]) {
            int32_t & written = out[static_cast<size_t>(position)];
            written           = written == -2 ? static_cast<int32_t>(step) : written;
        }
    }
    return out;
}

std::vector<float> RunLog::confidence() const {
    const size_t       T = current_.size();
    std::vector<float> out(confidence_.size() * T, std::numeric_limits<float>::quiet_NaN());
    for (size_t step = 0; step < confidence_.size(); step++) {
        for (const auto & [position, probability] : confidence_[step]) {
            out[step * T + static_cast<size_t>(position)] = probability;
        }
    }
    return out;
}

} // namespace buoy
