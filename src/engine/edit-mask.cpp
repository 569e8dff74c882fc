#include "engine/edit-mask.h"

#include <algorithm>
#include <cmath>

namespace buoy {

void EditMask::begin(std::vector<float> base, size_t n_columns, size_t n_heads) {
    base_      = std::move(base);
    n_columns_ = n_columns;
    n_rows_    = base_.size() / n_columns;
    n_heads_   = n_heads;
    values_.clear();
    applied_.clear();
}

bool EditMask::apply(const std::vector<PlacedEdit> & edits) {
    if (!values_.empty() && applied_ == edits) {
        return false;
    }
    applied_ = edits;
    values_.resize(n_heads_ * base_.size());
    for (size_t head = 0; head < n_heads_; head++) {
        std::copy(base_.begin(), base_.end(), values_.begin() + static_cast<std::ptrdiff_t>(head * base_.size()));
    }
    for (const PlacedEdit & edit : edits) {
        const size_t n_heads = edit.heads.empty() ? n_heads_ : edit.heads.size();
        const size_t n_rows  = edit.rows.empty() ? n_rows_ : edit.rows.size();
        for (size_t i = 0; i < n_heads; i++) {
            const size_t head = edit.heads.empty() ? i : static_cast<size_t>(edit.heads[i]);
            for (size_t j = 0; j < n_rows; j++) {
                const size_t at = edit.rows.empty() ? j : static_cast<size_t>(edit.rows[j]);
                float *      to = values_.data() + (head * n_rows_ + at) * n_columns_;
                for (int32_t column : edit.columns) {
                    to[column] += edit.bias;
                }
            }
        }
    }
    return true;
}

const float * EditMask::row(size_t head, size_t row) const {
    return values_.data() + ((n_heads_ == 1 ? 0 : head) * n_rows_ + row) * n_columns_;
}

std::optional<EditMask::Place> EditMask::first_blind() const {
    for (size_t head = 0; head < n_heads_; head++) {
        for (size_t at = 0; at < n_rows_; at++) {
            const float * first = row(head, at);
            if (std::none_of(first, first + n_columns_, [](float value) { return std::isfinite(value); })) {
                return Place{head, at};
            }
        }
    }
    return std::nullopt;
}

} // namespace buoy
