// How what a graph shows reaches the sink: one stream after the other, without padding, outermost dimension first.

#include "engine/ggml-context.h"
#include "engine/tap-request.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace buoy {

void GgmlContext::add_taps(const ForwardRequest & request, GraphKey & key) const {
    const TapSelection & selection = request.selection;
    for (TapPoint point : request.taps) {
        point.reduce = point.tap == Tap::pattern ? point.reduce : TapReduce::none;
        if (!key.has_tap(point)) {
            key.taps.push_back(point);
        }
        if (point.tap == Tap::pattern && !(selection.heads.empty() && selection.rows.empty())) {
            const auto H    = static_cast<int64_t>(model_->hparams().n_head);
            key.n_tap_heads = selection.heads.empty() ? H : static_cast<int64_t>(selection.heads.size());
            key.n_tap_rows  = selection.rows.empty() ? key.n_tokens : static_cast<int64_t>(selection.rows.size());
        }
        if (point.reduce == TapReduce::regions) {
            key.n_regions = static_cast<int64_t>(selection.regions.size());
        }
    }
}

int64_t GgmlContext::column_of(int32_t position, KvUse kv) const {
    const auto found = std::lower_bound(positions_.begin(), positions_.end(), position);
    const bool given = found != positions_.end() && *found == position;
    if (kv == KvUse::store) {
        const bool stored = position >= 0 && position < store_.n_ctx() && store_.is_filled(position);
        return given || stored ? position : -1;
    }
    return given ? found - positions_.begin() : -1;
}

void GgmlContext::set_tap_inputs(const TapSelection & selection) {
    const GraphInputs &        in    = graph_->inputs();
    const auto                 T     = static_cast<int32_t>(positions_.size());
    const int32_t              H     = model_->hparams().n_head;
    const std::vector<int32_t> rows  = all_if_empty(selection.rows, T);
    const std::vector<int32_t> heads = all_if_empty(selection.heads, H);
    if (in.tap_rows != nullptr) {
        ints_.clear();
        for (int32_t s = 0; s < params_.n_streams; s++) {
            for (int32_t head : heads) {
                for (int32_t row : rows) {
                    ints_.push_back((s * H + head) * T + row);
                }
            }
        }
        ggml_backend_tensor_set(in.tap_rows, ints_.data(), 0, ints_.size() * sizeof(int32_t));
    }
    if (in.region_keys != nullptr) {
        const auto         K = static_cast<size_t>(in.region_keys->ne[0]), n_rows = rows.size();
        const size_t       R = selection.regions.size();
        std::vector<float> of_keys(K * R), of_rows(n_rows * R);
        for (size_t r = 0; r < R; r++) {
            std::vector<int32_t> region = selection.regions[r];
            std::sort(region.begin(), region.end());
            for (int32_t position : region) {
                if (const int64_t column = column_of(position, graph_->key().kv); column >= 0) {
                    of_keys[r * K + static_cast<size_t>(column)] = 1.0f;
                }
            }
            for (size_t i = 0; i < n_rows; i++) {
                const int32_t position  = positions_[static_cast<size_t>(rows[i])];
                of_rows[r * n_rows + i] = std::binary_search(region.begin(), region.end(), position) ? 1.0f : 0.0f;
            }
        }
        ggml_backend_tensor_set(in.region_keys, of_keys.data(), 0, of_keys.size() * sizeof(float));
        ggml_backend_tensor_set(in.region_rows, of_rows.data(), 0, of_rows.size() * sizeof(float));
    }
}

bool GgmlContext::on_node(ggml_tensor * tensor, bool ask, void * self) {
    GgmlContext & context = *static_cast<GgmlContext *>(self);
    const auto &  taps    = context.graph_->taps();
    const auto &  edits   = context.graph_->edits();
    const auto    is_here = [&](const auto & node) { return node.ready == tensor; };
    if (context.tap_error_) { // ggml goes on with what another device computes
        return !ask;
    }
    if (ask) {
        return std::any_of(taps.begin(), taps.end(), is_here) || std::any_of(edits.begin(), edits.end(), is_here);
    }
    try {
        for (const EditNode & node : edits) { // first, because edited scores are shown
            if (is_here(node)) {
                context.write_edits(node);
            }
        }
        for (const TapNode & node : taps) {
            if (is_here(node)) {
                context.deliver(node);
            }
        }
        return true;
    } catch (...) { // must not pass through ggml's C code
        context.tap_error_ = std::current_exception();
        return false;
    }
}

void GgmlContext::hand_over(const TapPoint & point, int64_t stream, const std::array<int64_t, 3> & shape,
                            const float * data) {
    TapEvent event;
    event.point  = point;
    event.stream = static_cast<int32_t>(stream);
    event.shape  = shape;
    event.data   = data;
    current_->sink(event);
}

// Files for NORM-type RoPE interleave the two halves of a head; the checkpoint's own order has them one after the other.
void GgmlContext::restore_head_order(float * head) {
    const size_t half = static_cast<size_t>(model_->hparams().rope.n_dims) / 2;
    head_.assign(head, head + 2 * half);
    for (size_t i = 0; i < half; i++) {
        head[i]        = head_[2 * i];
        head[i + half] = head_[2 * i + 1];
    }
}

void GgmlContext::deliver(const TapNode & node) {
    const ggml_tensor * t    = node.tensor;
    const Tap           tap  = node.point.tap;
    const float *       data = static_cast<const float *>(t->data);
    if (!ggml_backend_buffer_is_host(t->buffer)) {
        tap_data_.resize(static_cast<size_t>(ggml_nelements(t)));
        ggml_backend_tensor_get(t, tap_data_.data(), 0, ggml_nbytes(t));
        data = tap_data_.data();
    }
    if (tap == Tap::attn_scores) {
        deliver_scores(node, data);
        return;
    }
    // [inner, middle, outer, S] in ggml's order; which of them counts keys depends on the tap
    std::array<int64_t, 4> ne = {t->ne[0], t->ne[1], t->ne[2], t->ne[3]};
    if (tap == Tap::resid_post) { // [E, T·S]
        ne = {t->ne[0], t->ne[1] / params_.n_streams, 1, params_.n_streams};
    }
    std::array<int64_t, 4> kept = ne;
    if (tap == Tap::pattern && node.point.reduce != TapReduce::regions) {
        kept[0] = n_keys();
    } else if (tap == Tap::rot_k || tap == Tap::v) {
        kept[1] = n_keys();
    }
    const bool    rotated = (tap == Tap::rot_q || tap == Tap::rot_k) && model_->hparams().rope.kind == RopeKind::norm;
    const int64_t n       = kept[0] * kept[1] * kept[2];
    for (int64_t s = 0; s < ne[3]; s++) {
        const float * from = data + s * ne[0] * ne[1] * ne[2];
        if (kept == ne && !rotated) {
            hand_over(node.point, s, {kept[2], kept[1], kept[0]}, from);
            continue;
        }
        tap_trimmed_.resize(static_cast<size_t>(n));
        float * to = tap_trimmed_.data();
        for (int64_t outer = 0; outer < kept[2]; outer++) {
            for (int64_t middle = 0; middle < kept[1]; middle++, to += kept[0]) {
                std::memcpy(to, from + (outer * ne[1] + middle) * ne[0], static_cast<size_t>(kept[0]) * sizeof(float));
                if (rotated) {
                    restore_head_order(to);
                }
            }
        }
        hand_over(node.point, s, {kept[2], kept[1], kept[0]}, tap_trimmed_.data());
    }
}

// Scores leave the graph raw; what a reader expects is scaled, edited, and -inf where the mask closes.
void GgmlContext::deliver_scores(const TapNode & node, const float * data) {
    const ggml_tensor *        t      = node.tensor; // [K, T, H, S]
    const std::vector<int32_t> rows   = all_if_empty(current_->selection.rows, t->ne[1]);
    const std::vector<int32_t> heads  = all_if_empty(current_->selection.heads, t->ne[2]);
    const auto                 K      = static_cast<size_t>(n_keys());
    const float                scale  = model_->hparams().attn_scale();
    const bool                 edited = graph_->key().is_edited(node.point.layer);
    tap_trimmed_.resize(heads.size() * rows.size() * K);
    for (int64_t s = 0; s < t->ne[3]; s++) {
        float * to = tap_trimmed_.data();
        for (int32_t head : heads) {
            for (int32_t row : rows) {
                const float * from  = data + ((s * t->ne[2] + head) * t->ne[1] + row) * t->ne[0];
                const int32_t query = positions_[static_cast<size_t>(row)];
                const float * added =
                    edited ? edit_mask_.row(static_cast<size_t>(head), static_cast<size_t>(row)) : nullptr;
                for (size_t column = 0; column < K; column++) {
                    const float mask = edited ? added[column] : is_open(query, column) ? 0.0f : -INFINITY;
                    *to++            = std::isinf(mask) ? mask : from[column] * scale + mask;
                }
            }
        }
        hand_over(node.point, s,
                  {static_cast<int64_t>(heads.size()), static_cast<int64_t>(rows.size()), static_cast<int64_t>(K)},
                  tap_trimmed_.data());
    }
}

} // namespace buoy
