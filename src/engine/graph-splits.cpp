#include "engine/graph-splits.h"

#include "buoy/message.h"

namespace buoy {

namespace {

void count_node(std::vector<GraphSplit> & splits, const std::string & device) {
    if (splits.empty() || splits.back().device != device) {
        splits.push_back({device, 0});
    }
    splits.back().n_nodes++;
}

std::string device_of(ggml_backend_buffer_t buffer) {
    ggml_backend_dev_t device = ggml_backend_buft_get_device(ggml_backend_buffer_get_type(buffer));
    return device != nullptr ? ggml_backend_dev_name(device) : "CPU"; // ggml's plain host memory belongs to none
}

} // namespace

bool is_view(const ggml_tensor * node) {
    return node->op == GGML_OP_NONE || node->op == GGML_OP_VIEW || node->op == GGML_OP_RESHAPE ||
           node->op == GGML_OP_PERMUTE || node->op == GGML_OP_TRANSPOSE;
}

std::vector<GraphSplit> read_splits(ggml_backend_sched_t sched, ggml_cgraph * graph) {
    std::vector<GraphSplit> splits;
    for (int i = 0; i < ggml_graph_n_nodes(graph); i++) {
        ggml_tensor *  node    = ggml_graph_node(graph, i);
        ggml_backend_t backend = is_view(node) ? nullptr : ggml_backend_sched_get_tensor_backend(sched, node);
        if (backend != nullptr) {
            count_node(splits, ggml_backend_dev_name(ggml_backend_get_device(backend)));
        }
    }
    return splits;
}

std::string splits_text(const std::vector<GraphSplit> & splits) {
    std::string list;
    int64_t     n_nodes = 0;
    for (const GraphSplit & split : splits) {
        list += concat(list.empty() ? "" : ", ", split.n_nodes, " on ", split.device);
        n_nodes += split.n_nodes;
    }
    return concat("graph of ", n_nodes, " operations in ", splits.size(),
                  splits.size() == 1 ? " split: " : " splits: ", list);
}

void NodeLog::see(const ggml_tensor * node) {
    if (is_view(node) || node->buffer == nullptr) {
        return;
    }
    count_node(splits_, device_of(node->buffer));
    for (const ggml_tensor * source : node->src) {
        if (!weights_known_ && source != nullptr && source->buffer != nullptr &&
            ggml_backend_buffer_get_usage(source->buffer) == GGML_BACKEND_BUFFER_USAGE_WEIGHTS) {
            weights_[source->name] = {source->name, device_of(source->buffer), ggml_nbytes(source)};
        }
    }
}

std::vector<PlacedWeight> NodeLog::weights() const {
    std::vector<PlacedWeight> weights;
    for (const auto & entry : weights_) {
        weights.push_back(entry.second);
    }
    return weights;
}

} // namespace buoy
