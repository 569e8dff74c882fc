#include "observe/run-log.h"

#include <algorithm>
#include <limits>

namespace buoy {

RunLog::RunLog(std::vector<int32_t> initial, int32_t mask_id)
    : initial_(std::move(initial)), current_(initial_), mask_id_(mask_id) {
    for (const int32_t id : initial_) {
        unmask_step_.push_back(mask_id_ >= 0 && id == mask_id_ ? -2 : -1);
    }
}

// What a canvas that grew pushed to the right takes its step along.
void RunLog::note_unmasked(const StepReport & report, const std::vector<int32_t> & tokens) {
    const auto step = static_cast<int32_t>(changes_.size());
    const auto set  = [&](size_t at, int32_t id) {
        int32_t & written = unmask_step_[at];
        written           = mask_id_ >= 0 && id == mask_id_ ? -2 : written == -2 ? step : written;
    };
    if (report.growth && report.growth->at >= 0) {
        for (const auto & [position, id] : report.committed) {
            set(static_cast<size_t>(position), id);
        }
        unmask_step_.insert(unmask_step_.begin() + report.growth->at,
                            static_cast<size_t>(report.growth->n_inserted) - 1, -2);
    }
    unmask_step_.resize(tokens.size(), -2);
    for (size_t i = 0; i < tokens.size(); i++) {
        if (mask_id_ < 0 && i < current_.size() && tokens[i] != current_[i]) {
            unmask_step_[i] = step; // without a mask: the step since which it has its token
        }
        set(i, tokens[i]);
    }
}

void RunLog::begin_step(const std::vector<int32_t> & positions, const std::vector<int32_t> & tokens) {
    for (size_t i = 0; i < positions.size(); i++) {
        if (static_cast<size_t>(positions[i]) != current_.size()) { // all others are known
            continue;
        }
        current_.push_back(tokens[i]);
        unmask_step_.push_back(-2);
        if (changes_.empty()) {
            initial_.push_back(tokens[i]);
        } else {
            changes_.back().emplace_back(positions[i], tokens[i]);
        }
    }
}

void RunLog::add(const StepReport & report, const std::vector<int32_t> & tokens) {
    note_unmasked(report, tokens);
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
