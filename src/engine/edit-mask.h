#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace buoy {

// An AttentionEdit of one layer, in rows and columns of a pass.
struct PlacedEdit {
    std::vector<int32_t> heads; // empty: all
    std::vector<int32_t> rows;  // empty: all
    std::vector<int32_t> columns;
    float                bias = 0.0f;

    bool operator==(const PlacedEdit & other) const {
        return heads == other.heads && rows == other.rows && columns == other.columns && bias == other.bias;
    }
};

// What is added to the scaled scores of an edited layer: the attention kind's own mask and the edits.
class EditMask {
public:
    struct Place {
        size_t head, row;
    };

    // A pass begins; base [T, K] is what every layer hides.
    void begin(std::vector<float> base, size_t n_columns, size_t n_heads);

    // Returns whether anything changed since the last call.
    bool apply(const std::vector<PlacedEdit> & edits);

    std::optional<Place>       first_blind() const;               // a row without any key left
    const std::vector<float> & values() const { return values_; } // [n_heads, T, K]
    const float *              row(size_t head, size_t row) const;

private:
    std::vector<float>      base_, values_;
    std::vector<PlacedEdit> applied_;
    size_t                  n_columns_ = 0;
    size_t                  n_rows_    = 0;
    size_t                  n_heads_   = 0; // 1: the same for all
};

} // namespace buoy
