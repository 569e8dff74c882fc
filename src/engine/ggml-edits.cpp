// Edits of the attention: from positions to rows and columns of the pass, and into an edited layer's mask while it runs.

#include "base/fail.h"
#include "engine/edit-limits.h"
#include "engine/ggml-context.h"

#include <algorithm>
#include <cmath>

namespace buoy {

namespace {

void sort_unique(std::vector<int32_t> & numbers) {
    std::sort(numbers.begin(), numbers.end());
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
}

void check_layer(int32_t layer, int32_t n_layer) {
    if (layer < 0 || layer >= n_layer) {
        fail("layer ", layer, " cannot be edited, the model has layers 0 to ", n_layer - 1);
    }
}

} // namespace

// Where an edit is in this pass; nothing for one that changes nothing.
std::optional<PlacedEdit> GgmlContext::place(const AttentionEdit & edit, KvUse kv) const {
    const HParams & hp = model_->hparams();
    check_layer(edit.layer, hp.n_layer);
    if (!(std::abs(edit.bias) <= attention_bias_max) && edit.bias != -INFINITY) {
        fail("an edit of layer ", edit.layer, " has the bias ", edit.bias, ", expected -", attention_bias_max, " to ",
             attention_bias_max, " or -inf");
    }
    PlacedEdit placed;
    placed.bias  = edit.bias;
    placed.heads = edit.heads;
    sort_unique(placed.heads);
    for (int32_t head : placed.heads) {
        if (head < 0 || head >= hp.n_head) {
            fail("head ", head, " cannot be edited, the model has heads 0 to ", hp.n_head - 1);
        }
    }
    for (int32_t position : edit.keys) {
        if (const int64_t column = column_of(position, kv); column >= 0) {
            placed.columns.push_back(static_cast<int32_t>(column));
        }
    }
    for (int32_t position : edit.queries) {
        const auto found = std::lower_bound(positions_.begin(), positions_.end(), position);
        if (found != positions_.end() && *found == position) {
            placed.rows.push_back(static_cast<int32_t>(found - positions_.begin()));
        }
    }
    sort_unique(placed.columns);
    sort_unique(placed.rows);
    const bool no_row = !edit.queries.empty() && placed.rows.empty();
    if (edit.bias == 0.0f || placed.columns.empty() || no_row) {
        return std::nullopt;
    }
    return placed;
}

void GgmlContext::add_edits(const ForwardRequest & request, GraphKey & key) {
    edits_.clear();
    for (const AttentionEdit & edit : request.edits) {
        if (std::optional<PlacedEdit> placed = place(edit, request.kv)) {
            key.edits_by_head = key.edits_by_head || !placed->heads.empty();
            edits_[edit.layer].push_back(std::move(*placed));
        }
    }
    for (int32_t layer : request.probed) {
        check_layer(layer, model_->hparams().n_layer);
        if (!request.probe) {
            fail("layer ", layer, " is to be probed, but there is no probe");
        }
        edits_.try_emplace(layer);
        key.edits_by_head = true; // whatever the probe will say
    }
    key.probed = request.probed;
    sort_unique(key.probed);
    for (const auto & [layer, unused] : edits_) {
        key.edited.push_back(layer);
    }
}

void GgmlContext::begin_edits() {
    edit_mask_on_ = nullptr;
    if (graph_->edits().empty()) {
        return;
    }
    const auto         K = static_cast<size_t>(graph_->key().n_kv);
    std::vector<float> base(positions_.size() * K);
    for (size_t row = 0; row < positions_.size(); row++) {
        for (size_t column = 0; column < K; column++) {
            base[row * K + column] = is_open(positions_[row], column) ? 0.0f : -INFINITY;
        }
    }
    edit_mask_.begin(std::move(base), K, static_cast<size_t>(graph_->edits()[0].mask->ne[2]));
}

std::vector<PlacedEdit> GgmlContext::probe(const EditNode & node) {
    const auto           K = static_cast<size_t>(n_keys()), n_kv = static_cast<size_t>(node.received->ne[0]);
    const auto           H      = static_cast<size_t>(node.received->ne[2]);
    const bool           stored = graph_->key().kv == KvUse::store;
    std::vector<float>   received(H * K), row(n_kv);
    std::vector<int32_t> key_positions = positions_;
    for (size_t head = 0; head < H; head++) { // the first stream's
        ggml_backend_tensor_get(node.received, row.data(), head * node.received->nb[2], n_kv * sizeof(float));
        std::copy_n(row.begin(), K, received.begin() + static_cast<std::ptrdiff_t>(head * K));
    }
    if (stored) {
        key_positions.clear();
        for (int32_t cell = 0; cell < n_keys(); cell++) {
            key_positions.push_back(cell);
        }
    }
    std::vector<PlacedEdit> found;
    for (const AttentionEdit & edit : current_->probe(node.layer, key_positions, received.data())) {
        if (edit.layer != node.layer) {
            fail("a probe of layer ", node.layer, " edits layer ", edit.layer);
        }
        if (std::optional<PlacedEdit> placed = place(edit, current_->kv)) {
            found.push_back(std::move(*placed));
        }
    }
    return found;
}

void GgmlContext::write_edits(const EditNode & node) {
    std::vector<PlacedEdit> edits = edits_[node.layer];
    if (node.received != nullptr) {
        const std::vector<PlacedEdit> found = probe(node);
        edits.insert(edits.end(), found.begin(), found.end());
    }
    const bool changed = edit_mask_.apply(edits);
    if (!changed && edit_mask_on_ == node.mask) {
        return;
    }
    if (const std::optional<EditMask::Place> blind = edit_mask_.first_blind()) {
        fail("layer ", node.layer, ", head ", blind->head, ": the edits leave the query at position ",
             positions_[blind->row], " no key to attend to; exclude it with queries=");
    }
    const std::vector<float> & values = edit_mask_.values();
    ggml_backend_tensor_set(node.mask, values.data(), 0, values.size() * sizeof(float));
    edit_mask_on_ = node.mask;
}

} // namespace buoy
