#pragma once

#include "buoy/context.h"

#include <ggml-backend.h>

#include <map>
#include <string>
#include <vector>

namespace buoy {

// Nothing is computed for them.
bool is_view(const ggml_tensor * node);

// How a scheduler that has allocated the graph divided it.
std::vector<GraphSplit> read_splits(ggml_backend_sched_t sched, ggml_cgraph * graph);

// "graph of 120 operations in 2 splits: 1 on CPU, 119 on RPC0"
std::string splits_text(const std::vector<GraphSplit> & splits);

// The same for a graph of which one only sees the nodes go by, and the weights that they use.
class NodeLog {
public:
    void begin() {
        splits_.clear();
        weights_known_ = !weights_.empty();
    }
    void see(const ggml_tensor * node);

    std::vector<GraphSplit>   splits() const { return splits_; }
    std::vector<PlacedWeight> weights() const;

private:
    std::vector<GraphSplit>             splits_;
    std::map<std::string, PlacedWeight> weights_;
    bool                                weights_known_ = false; // from the first pass
};

} // namespace buoy
