#include "analysis/rollout.h"

namespace buoy::analysis {

namespace {

SquareMatrix product(const SquareMatrix & a, const SquareMatrix & b) {
    SquareMatrix out(a.n);
    for (size_t i = 0; i < a.n; i++) {
        for (size_t k = 0; k < a.n; k++) {
            for (size_t j = 0; j < a.n; j++) {
                out.at(i, j) += a.at(i, k) * b.at(k, j);
            }
        }
    }
    return out;
}

} // namespace

void normalise_rows(SquareMatrix & matrix) {
    for (size_t i = 0; i < matrix.n; i++) {
        double sum = 0;
        for (size_t j = 0; j < matrix.n; j++) {
            sum += matrix.at(i, j);
        }
        for (size_t j = 0; j < matrix.n && sum > 0; j++) {
            matrix.at(i, j) /= sum;
        }
    }
}

SquareMatrix rollout(const std::vector<SquareMatrix> & layers) {
    SquareMatrix flow(layers.empty() ? 0 : layers[0].n);
    for (size_t i = 0; i < flow.n; i++) {
        flow.at(i, i) = 1;
    }
    for (SquareMatrix layer : layers) {
        normalise_rows(layer);
        for (size_t i = 0; i < layer.n; i++) {
            layer.at(i, i) += 1;
        }
        normalise_rows(layer);
        flow = product(layer, flow);
    }
    normalise_rows(flow);
    return flow;
}

} // namespace buoy::analysis
