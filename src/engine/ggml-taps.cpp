// How what a graph shows reaches its observer: without padding, outermost dimension first.

#include "engine/ggml-context.h"
#include "engine/request-check.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace buoy {

TapSelection GgmlContext::shown(const Sequence & seq, const TapSelection & selection) const {
    TapSelection own = selection;
    if (seq.n_own < seq.positions.size()) {
        own.rows = all_if_empty(own.rows, static_cast<int64_t>(seq.n_own));
    }
    return own;
}

ObserverKey GgmlContext::observer_key(const Sequence & seq, const Observer & observer) const {
    const TapSelection selection = shown(seq, observer.selection);
    ObserverKey        key;
    for (TapPoint point : observer.taps) {
        point.reduce = point.tap == Tap::pattern ? point.reduce : TapReduce::none;
        if (!key.has_tap(point)) {
            key.taps.push_back(point);
        }
        if (point.tap == Tap::pattern) {
            key.n_heads = static_cast<int64_t>(selection.heads.size());
            key.n_rows  = static_cast<int64_t>(selection.rows.size());
        }
        if (point.reduce == TapReduce::regions) {
            key.n_regions = static_cast<int64_t>(selection.regions.size());
        }
    }
    return key;
}

int64_t GgmlContext::column_of(const Sequence & seq, int32_t position) const {
    if (is_stored(seq)) {
        const bool present = position >= 0 && position < store_.n_ctx() && seq.present[static_cast<size_t>(position)];
        return present ? position : -1;
    }
    const auto end   = seq.positions.begin() + static_cast<std::ptrdiff_t>(seq.n_own);
    const auto found = std::lower_bound(seq.positions.begin(), end, position);
    return found != end && *found == position ? found - seq.positions.begin() : -1;
}

void GgmlContext::set_observer_inputs(const Sequence & seq, const TapSelection & selection, const ObserverInputs & in) {
    const auto                 T    = static_cast<int32_t>(seq.positions.size());
    const std::vector<int32_t> rows = all_if_empty(selection.rows, T);
    for (const auto & [n_heads, chosen] : in.tap_rows) {
        ints_.clear();
        for (const int32_t head : all_if_empty(selection.heads, n_heads)) {
            for (const int32_t row : rows) {
                ints_.push_back(head * T + row);
            }
        }
        ggml_backend_tensor_set(chosen, ints_.data(), 0, ints_.size() * sizeof(int32_t));
    }
    if (in.region_keys == nullptr) {
        return;
    }
    const auto         K = static_cast<size_t>(in.region_keys->ne[0]), n_rows = rows.size();
    const size_t       R = selection.regions.size();
    std::vector<float> of_keys(K * R), of_rows(n_rows * R);
    for (size_t r = 0; r < R; r++) {
        std::vector<int32_t> region = selection.regions[r];
        std::sort(region.begin(), region.end());
        for (int32_t position : region) {
            if (const int64_t column = column_of(seq, position); column >= 0) {
                of_keys[r * K + static_cast<size_t>(column)] = 1.0f;
            }
        }
        for (size_t i = 0; i < n_rows; i++) {
            const int32_t position  = seq.positions[static_cast<size_t>(rows[i])];
            of_rows[r * n_rows + i] = std::binary_search(region.begin(), region.end(), position) ? 1.0f : 0.0f;
        }
    }
    ggml_backend_tensor_set(in.region_keys, of_keys.data(), 0, of_keys.size() * sizeof(float));
    ggml_backend_tensor_set(in.region_rows, of_rows.data(), 0, of_rows.size() * sizeof(float));
}

bool GgmlContext::on_node(ggml_tensor * tensor, bool ask, void * self) {
    GgmlContext & context = *static_cast<GgmlContext *>(self);
    if (context.error_ || context.reset_at_) { // ggml goes on with what another device computes
        return !ask;
    }
    if (ask) {
        return context.awaited_.count(tensor) > 0;
    }
    try {
        context.show(tensor);
        return !context.reset_at_;
    } catch (...) { // must not pass through ggml's C code
        context.error_ = std::current_exception();
        return false;
    }
}

void GgmlContext::show(const ggml_tensor * ready) {
    for (const EditNode & node : graph_->edits()) { // first, because edited scores are shown
        if (node.ready == ready) {
            write_edits(node);
        }
    }
    for (const TapNode & node : graph_->taps()) {
        if (node.ready == ready) {
            deliver(node);
        }
    }
    for (const ProductNode & node : graph_->products()) {
        if (node.ready == ready) {
            deliver(node);
        }
    }
    for (const ResetNode & node : graph_->resets()) {
        if (node.ready == ready) {
            float same = 0.0f;
            ggml_backend_tensor_get(node.drift, &same, 0, sizeof(same));
            if (!(same >= pass_[0].request->reset->gamma)) {
                reset_at_ = node.layer;
            }
        }
    }
}

// Files for NORM-type RoPE interleave the two halves of a head; the checkpoint's own order has them one after the other.
void GgmlContext::restore_head_order(int32_t layer, float * head) {
    const size_t half = static_cast<size_t>(loaded_.hparams().layer(layer).rope.n_dims) / 2;
    head_.assign(head, head + 2 * half);
    for (size_t i = 0; i < half; i++) {
        head[i]        = head_[2 * i];
        head[i + half] = head_[2 * i + 1];
    }
}

const float * GgmlContext::host_data(const ggml_tensor * tensor) {
    if (ggml_backend_buffer_is_host(tensor->buffer)) {
        return static_cast<const float *>(tensor->data);
    }
    tap_data_.resize(static_cast<size_t>(ggml_nelements(tensor)));
    ggml_backend_tensor_get(tensor, tap_data_.data(), 0, ggml_nbytes(tensor));
    return tap_data_.data();
}

void GgmlContext::deliver(const TapNode & node) {
    const ggml_tensor * t    = node.tensor;
    const Tap           tap  = node.point.tap;
    const Sequence &    seq  = pass_[node.sequence];
    const Observer &    to   = seq.request->observers[node.observer];
    const float *       data = host_data(t);
    if (tap == Tap::attn_scores) {
        deliver_scores(node, data);
        return;
    }
    // [inner, middle, outer] in ggml's order; which of them counts keys depends on the tap
    const std::array<int64_t, 3> ne   = {t->ne[0], t->ne[1], t->ne[2]};
    std::array<int64_t, 3>       kept = ne;
    if (tap == Tap::pattern && node.point.reduce != TapReduce::regions) {
        kept[0] = n_keys(seq);
    } else if (tap == Tap::rot_k || tap == Tap::v) {
        kept[1] = n_keys(seq);
    }
    const bool rotated = (tap == Tap::rot_q || tap == Tap::rot_k) &&
                         loaded_.hparams().layer(node.point.layer).rope.kind == RopeKind::norm;
    if (kept != ne || rotated) {
        tap_trimmed_.resize(static_cast<size_t>(kept[0] * kept[1] * kept[2]));
        float * row = tap_trimmed_.data();
        for (int64_t outer = 0; outer < kept[2]; outer++) {
            for (int64_t middle = 0; middle < kept[1]; middle++, row += kept[0]) {
                std::memcpy(row, data + (outer * ne[1] + middle) * ne[0], static_cast<size_t>(kept[0]) * sizeof(float));
                if (rotated) {
                    restore_head_order(node.point.layer, row);
                }
            }
        }
        data = tap_trimmed_.data();
    }
    to.sink({node.point, {kept[2], kept[1], kept[0]}, data});
}

// Scores leave the graph raw; what a reader expects is scaled, edited, and -inf where the mask closes.
void GgmlContext::deliver_scores(const TapNode & node, const float * data) {
    const ggml_tensor *        t       = node.tensor; // [K, T, H]
    const Sequence &           seq     = pass_[node.sequence];
    const Observer &           to      = seq.request->observers[node.observer];
    const std::vector<int32_t> rows    = all_if_empty(shown(seq, to.selection).rows, t->ne[1]);
    const std::vector<int32_t> heads   = all_if_empty(to.selection.heads, t->ne[2]);
    const auto                 K       = static_cast<size_t>(n_keys(seq));
    const int32_t              window  = loaded_.hparams().layer(node.point.layer).window;
    const size_t               leader  = graph_->key().sequences[node.sequence].leader;
    const auto &               edits   = graph_->edits();
    const auto                 edit    = std::find_if(edits.begin(), edits.end(), [&](const EditNode & e) {
        return e.sequence == leader && e.layer == node.point.layer;
    });
    const EditMask *           changed = edit != edits.end() ? &edit_masks_.at(edit->mask) : nullptr;
    tap_trimmed_.resize(heads.size() * rows.size() * K);
    float * out = tap_trimmed_.data();
    for (int32_t head : heads) {
        for (int32_t row : rows) {
            const float * from = data + (head * t->ne[1] + row) * t->ne[0];
            const float * added =
                changed != nullptr ? changed->row(static_cast<size_t>(head), static_cast<size_t>(row)) : nullptr;
            for (size_t column = 0; column < K; column++) {
                const float open = is_open(seq, window, static_cast<size_t>(row), column) ? 0.0f : -INFINITY;
                const float mask = added != nullptr ? added[column] : open;
                *out++           = std::isinf(mask) ? mask : from[column] * node.scale + mask;
            }
        }
    }
    to.sink({node.point,
             {static_cast<int64_t>(heads.size()), static_cast<int64_t>(rows.size()), static_cast<int64_t>(K)},
             tap_trimmed_.data()});
}

// The rows of each sequence for its own observers.
void GgmlContext::deliver(const ProductNode & node) {
    const ggml_tensor *  x      = node.x;
    const int64_t        n_cols = x->ne[0];
    const int64_t        n_used = node.ids != nullptr ? node.ids->ne[0] : 1;
    std::vector<char>    bytes(ggml_nbytes(x));
    std::vector<int32_t> ids;
    ggml_backend_tensor_get(x, bytes.data(), 0, bytes.size());
    if (node.ids != nullptr) {
        std::vector<char> raw(ggml_nbytes(node.ids));
        ggml_backend_tensor_get(node.ids, raw.data(), 0, raw.size());
        for (int64_t row = 0; row < node.ids->ne[1]; row++) {
            for (int64_t i = 0; i < n_used; i++) {
                int32_t id = 0;
                std::memcpy(&id,
                            raw.data() + node.ids->nb[1] * static_cast<size_t>(row) +
                                node.ids->nb[0] * static_cast<size_t>(i),
                            sizeof(id));
                ids.push_back(id);
            }
        }
    }
    int64_t first = 0;
    for (size_t s = 0; s < pass_.size(); s++) {
        const SequenceKey & key = graph_->key().sequences[s];
        const int64_t       n   = node.needed ? key.n_rows : key.n_tokens;
        tap_trimmed_.clear();
        for (int64_t row = first; row < first + n; row++) { // one matrix: [n_in, n]; by expert: [n_in, used or 1, n]
            for (int64_t i = 0; i < n_used; i++) {
                const size_t at     = node.ids != nullptr ? x->nb[2] * static_cast<size_t>(row) +
                                                            x->nb[1] * static_cast<size_t>(i % x->ne[1])
                                                          : x->nb[1] * static_cast<size_t>(row);
                const auto * values = reinterpret_cast<const float *>(bytes.data() + at);
                tap_trimmed_.insert(tap_trimmed_.end(), values, values + n_cols);
            }
        }
        ProductEvent event{node.weight->name,   n * n_used, n_cols, node.ids != nullptr ? node.weight->ne[2] : 0,
                           tap_trimmed_.data(), {}};
        if (node.ids != nullptr) {
            event.experts =
                std::span(ids).subspan(static_cast<size_t>(first * n_used), static_cast<size_t>(n * n_used));
        }
        for (const Observer & observer : pass_[s].request->observers) {
            if (observer.products && n > 0) {
                observer.products(event);
            }
        }
        first += n;
    }
}

} // namespace buoy
