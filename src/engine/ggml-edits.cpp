// Edits of the attention: from positions to rows and columns of the pass, and into an edited layer's mask while it runs.

#include "buoy/message.h"
#include "engine/ggml-context.h"
#include "engine/request-check.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace buoy {

namespace {

void sort_unique(std::vector<int32_t> & numbers) {
    std::sort(numbers.begin(), numbers.end());
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
}

} // namespace

// Where an edit is in this pass; nothing for one that changes nothing.
std::optional<PlacedEdit> GgmlContext::place(const Sequence & seq, const AttentionEdit & edit) const {
    const int32_t n_head = loaded_.hparams().layer(edit.layer).n_head;
    if (!(std::abs(edit.bias) <= attention_bias_max) && edit.bias != -INFINITY) {
        fail("an edit of layer ", edit.layer, " has the bias ", edit.bias, ", expected -", attention_bias_max, " to ",
             attention_bias_max, " or -inf");
    }
    PlacedEdit placed;
    placed.bias  = edit.bias;
    placed.heads = edit.heads;
    sort_unique(placed.heads);
    for (int32_t head : placed.heads) {
        if (head < 0 || head >= n_head) {
            fail("head ", head, " cannot be edited, the model has heads 0 to ", n_head - 1);
        }
    }
    for (int32_t position : edit.keys) {
        if (const int64_t column = column_of(seq, position); column >= 0) {
            placed.columns.push_back(static_cast<int32_t>(column));
        }
    }
    for (int32_t position : edit.queries) {
        const auto end   = seq.positions.begin() + static_cast<std::ptrdiff_t>(seq.n_own);
        const auto found = std::lower_bound(seq.positions.begin(), end, position);
        if (found != end && *found == position) {
            placed.rows.push_back(static_cast<int32_t>(found - seq.positions.begin()));
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

void GgmlContext::tell_edit(const Sequence & seq, const AttentionEdit & edit) const {
    for (const Observer & observer : seq.request->observers) {
        if (observer.edited) {
            observer.edited(edit);
        }
    }
}

void GgmlContext::place_edits(Sequence & seq) {
    for (const AttentionEdit & edit : seq.request->edits) {
        if (std::optional<PlacedEdit> placed = place(seq, edit)) {
            seq.edits[edit.layer].push_back(std::move(*placed));
            tell_edit(seq, edit);
        }
    }
    for (const Observer & observer : seq.request->observers) {
        for (const int32_t layer : observer.probed) {
            seq.edits.try_emplace(layer);
        }
    }
}

void GgmlContext::add_edits(const Sequence & seq, SequenceKey & key) const {
    for (const Observer & observer : seq.request->observers) {
        key.probed.insert(key.probed.end(), observer.probed.begin(), observer.probed.end());
    }
    sort_unique(key.probed);
    key.edits_by_head = !key.probed.empty(); // whatever the probe will say
    for (const auto & [layer, edits] : seq.edits) {
        key.edited.push_back(layer);
        key.edits_by_head = key.edits_by_head || std::any_of(edits.begin(), edits.end(),
                                                             [](const PlacedEdit & e) { return !e.heads.empty(); });
    }
}

void GgmlContext::begin_edits() {
    edit_masks_.clear();
    for (const EditNode & node : graph_->edits()) {
        if (edit_masks_.count(node.mask) > 0) {
            continue;
        }
        const Sequence &   seq    = pass_[node.sequence];
        const int32_t      window = loaded_.hparams().layer(node.layer).window;
        const auto         K      = static_cast<size_t>(node.mask->ne[0]);
        std::vector<float> base(seq.positions.size() * K);
        for (size_t row = 0; row < seq.positions.size(); row++) {
            for (size_t column = 0; column < K; column++) {
                base[row * K + column] = is_open(seq, window, row, column) ? 0.0f : -INFINITY;
            }
        }
        edit_masks_[node.mask].begin(std::move(base), K, static_cast<size_t>(node.mask->ne[2]));
    }
}

std::vector<PlacedEdit> GgmlContext::probe(Sequence & seq, const EditNode & node) {
    const auto           K = static_cast<size_t>(n_keys(seq)), n_kv = static_cast<size_t>(node.received->ne[0]);
    const auto           H = static_cast<size_t>(node.received->ne[2]);
    std::vector<float>   received(H * K), row(n_kv);
    std::vector<int32_t> key_positions = seq.positions;
    for (size_t head = 0; head < H; head++) {
        ggml_backend_tensor_get(node.received, row.data(), head * node.received->nb[2], n_kv * sizeof(float));
        std::copy_n(row.begin(), K, received.begin() + static_cast<std::ptrdiff_t>(head * K));
    }
    key_positions.resize(K); // without a shadow's
    if (is_stored(seq)) {
        std::iota(key_positions.begin(), key_positions.end(), 0);
    }
    std::vector<PlacedEdit> found;
    for (const Observer & observer : seq.request->observers) {
        if (std::find(observer.probed.begin(), observer.probed.end(), node.layer) == observer.probed.end()) {
            continue;
        }
        for (const AttentionEdit & edit : observer.probe(node.layer, key_positions, received.data())) {
            if (edit.layer != node.layer) {
                fail("a probe of layer ", node.layer, " edits layer ", edit.layer);
            }
            if (std::optional<PlacedEdit> placed = place(seq, edit)) {
                found.push_back(std::move(*placed));
                tell_edit(seq, edit);
            }
        }
    }
    return found;
}

void GgmlContext::write_edits(const EditNode & node) {
    Sequence &              seq   = pass_[node.sequence];
    std::vector<PlacedEdit> edits = seq.edits[node.layer];
    if (node.received != nullptr) {
        const std::vector<PlacedEdit> found = probe(seq, node);
        edits.insert(edits.end(), found.begin(), found.end());
    }
    EditMask & mask = edit_masks_[node.mask];
    if (!mask.apply(edits)) {
        return;
    }
    if (const std::optional<EditMask::Place> blind = mask.first_blind()) {
        fail("layer ", node.layer, ", head ", blind->head, ": the edits leave the query at position ",
             seq.positions[blind->row], " no key to attend to; exclude it with queries=");
    }
    const std::vector<float> & values = mask.values();
    ggml_backend_tensor_set(node.mask, values.data(), 0, values.size() * sizeof(float));
}

} // namespace buoy
