#pragma once

#include "analysis/study.h"

namespace buoy::analysis {

// Means of a metric's numbers over steps, by layer and over all layers.
class LayerMeans {
public:
    LayerMeans(size_t n_numbers, size_t n_layers)
        : by_layer_(n_numbers, std::vector<Mean>(n_layers)), all_(n_numbers) {}

    void add(size_t number, size_t layer, double value) {
        by_layer_[number][layer].add(value);
        all_[number].add(value);
    }

    void add(size_t layer, const std::vector<double> & values) {
        for (size_t number = 0; number < values.size(); number++) {
            add(number, layer, values[number]);
        }
    }

    void put_into(Measured & measured) const {
        for (size_t number = 0; number < all_.size(); number++) {
            measured.by_layer.emplace_back();
            for (const Mean & mean : by_layer_[number]) {
                measured.by_layer.back().push_back(mean.value());
            }
            measured.overall.push_back(all_[number].value());
        }
    }

private:
    std::vector<std::vector<Mean>> by_layer_;
    std::vector<Mean>              all_;
};

} // namespace buoy::analysis
