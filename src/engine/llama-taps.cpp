#include "engine/llama-taps.h"

#include "buoy/message.h"
#include "engine/tap-reduce.h"

#include <ggml-backend.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace buoy {

namespace {

// One row of a tensor, which may be a strided view of any type.
void read_row(const ggml_tensor * tensor, int64_t i1, int64_t i2, int64_t n, float * out) {
    const size_t offset = static_cast<size_t>(i1) * tensor->nb[1] + static_cast<size_t>(i2) * tensor->nb[2];
    const size_t size   = ggml_row_size(tensor->type, n);
    if (tensor->type == GGML_TYPE_F32) {
        ggml_backend_tensor_get(tensor, out, offset, size);
        return;
    }
    std::vector<uint8_t> bytes(size);
    ggml_backend_tensor_get(tensor, bytes.data(), offset, size);
    ggml_get_type_traits(tensor->type)->to_float(bytes.data(), out, n);
}

void check_columns(const ggml_tensor * tensor, int64_t n) {
    if (tensor->ne[0] < n) {
        fail_runtime("libllama's tensor ", tensor->name, " has ", tensor->ne[0], " columns, expected at least ", n);
    }
}

} // namespace

void LlamaTaps::begin(const ForwardRequest & request, int32_t position_first, int64_t n_rows, int64_t n_keys) {
    records_.clear();
    for (size_t observer = 0; observer < request.observers.size(); observer++) {
        for (const TapPoint & point : request.observers[observer].taps) {
            Record * record = find(point.tap, point.layer);
            if (record == nullptr) {
                records_.push_back({point.tap, point.layer, {}, {}, {}, false});
                record = &records_.back();
            }
            const Wish wish = {observer, point.tap == Tap::pattern ? point.reduce : TapReduce::none};
            if (std::find(record->wishes.begin(), record->wishes.end(), wish) == record->wishes.end()) {
                record->wishes.push_back(wish);
            }
        }
    }
    request_        = &request;
    position_first_ = position_first;
    n_rows_         = n_rows;
    n_keys_         = n_keys;
    error_          = nullptr;
}

void LlamaTaps::begin_chunk(int64_t row_first, int64_t n_rows) {
    chunk_first_  = row_first;
    chunk_n_rows_ = n_rows;
}

void LlamaTaps::end_chunk() const {
    if (error_) {
        std::rethrow_exception(error_);
    }
}

void LlamaTaps::end() {
    for (Record & record : records_) {
        if (record.data.empty() && !record.delivered) {
            fail("libllama does not expose ", tap_name(record.tap, record.layer), " of this model");
        }
        deliver(record);
    }
}

void LlamaTaps::deliver(Record & record) {
    if (record.delivered) {
        return;
    }
    for (const Wish & wish : record.wishes) {
        const Observer &     observer  = request_->observers[wish.observer];
        const TapSelection & selection = observer.selection;
        const TapPoint       point{record.tap, record.layer, wish.reduce};
        const bool           sliced = (record.tap == Tap::pattern || record.tap == Tap::attn_scores) &&
                            !(selection.heads.empty() && selection.rows.empty());
        if (wish.reduce == TapReduce::none && !sliced) {
            observer.sink({point, record.shape, record.data.data()});
            continue;
        }
        const int32_t key_first = position_first_ + static_cast<int32_t>(n_rows_ - n_keys_); // keys end where rows do
        const ReducedTap reduced =
            reduce_tap(record.data.data(), record.shape, wish.reduce, selection, position_first_, key_first);
        observer.sink({point, reduced.shape, reduced.data.data()});
    }
    record.delivered = true;
    record.data      = {};
}

LlamaTaps::Node LlamaTaps::name_node(const std::string & name, int32_t & layer) {
    const size_t dash = name.rfind('-');
    if (dash == std::string::npos || dash + 1 == name.size() ||
        name.find_first_not_of("0123456789", dash + 1) != std::string::npos) {
        return Node::other;
    }
    layer                  = std::atoi(name.c_str() + dash + 1);
    const std::string base = name.substr(0, dash);
    // Later names are what some architectures make of the scores before they go into the softmax.
    for (const char * scores : {"kq", "kq_scaled", "kq_scaled_2", "kq_plus_kq_b"}) {
        if (base == scores) {
            return Node::scores;
        }
    }
    return base == "kq_soft_max" ? Node::soft_max
           : base == "kqv"       ? Node::context
           : base == "l_out"     ? Node::block_out
                                 : Node::other;
}

LlamaTaps::Record * LlamaTaps::find(Tap tap, int32_t layer) {
    const auto found = std::find_if(records_.begin(), records_.end(),
                                    [&](const Record & record) { return record.tap == tap && record.layer == layer; });
    return found == records_.end() ? nullptr : &*found;
}

bool LlamaTaps::wants(Node node, int32_t layer) {
    switch (node) {
        case Node::scores: return find(Tap::attn_scores, layer) || find(Tap::rot_q, layer) || find(Tap::rot_k, layer);
        case Node::soft_max: return find(Tap::attn_scores, layer) || find(Tap::pattern, layer);
        case Node::context: return find(Tap::v, layer);
        case Node::block_out: return find(Tap::resid_post, layer);
        case Node::other: return false;
    }
    return false;
}

bool LlamaTaps::on_node(ggml_tensor * node, bool ask, void * self) {
    LlamaTaps & taps  = *static_cast<LlamaTaps *>(self);
    int32_t     layer = -1;
    const Node  kind  = taps.records_.empty() ? Node::other : name_node(node->name, layer);
    if (!taps.wants(kind, layer)) {
        return !ask;
    }
    if (!ask) {
        try {
            taps.observe(kind, layer, node);
        } catch (...) { // must not pass through ggml's C code
            taps.error_ = std::current_exception();
        }
    }
    return taps.error_ == nullptr;
}

void LlamaTaps::observe(Node node, int32_t layer, const ggml_tensor * tensor) {
    const auto take_if_wanted = [&](Tap tap, const ggml_tensor * source) {
        if (Record * record = find(tap, layer)) {
            take(*record, source);
        }
    };
    switch (node) {
        case Node::scores:
            if (tensor->op == GGML_OP_MUL_MAT) {
                take_if_wanted(Tap::rot_k, tensor->src[0]);
                take_if_wanted(Tap::rot_q, tensor->src[1]);
            }
            if (find(Tap::attn_scores, layer)) {
                take_raw_scores(tensor);
            }
            break;
        case Node::soft_max:
            take_if_wanted(Tap::attn_scores, tensor);
            take_if_wanted(Tap::pattern, tensor);
            break;
        case Node::context: take_if_wanted(Tap::v, tensor->src[0]); break;
        case Node::block_out: take_if_wanted(Tap::resid_post, tensor); break;
        case Node::other: break;
    }
}

void LlamaTaps::take(Record & record, const ggml_tensor * tensor) {
    switch (record.tap) {
        case Tap::attn_scores: take_scores(record, tensor); break;
        case Tap::pattern: take_pattern(record, tensor); break;
        case Tap::rot_q: take_heads(record, tensor, false); break;
        case Tap::rot_k: take_heads(record, tensor, true); break;
        case Tap::v: take_values(record, tensor); break;
        case Tap::resid_post: take_residual(record, tensor); break;
    }
    if (chunk_n_rows_ == n_rows_) { // nothing will be added, and its memory is wanted for the next layer's
        deliver(record);
    }
}

void LlamaTaps::start(Record & record, int64_t outer, int64_t middle, int64_t inner) const {
    if (record.data.empty()) {
        record.shape = {outer, middle, inner};
        record.data.assign(static_cast<size_t>(outer * middle * inner), 0.0f);
    }
}

// [D, T or n_kv, heads] → [heads, T or K, D]
void LlamaTaps::take_heads(Record & record, const ggml_tensor * heads, bool rows_are_keys) {
    const int64_t n_dims = heads->ne[0];
    const int64_t first  = rows_are_keys ? 0 : chunk_first_;
    const int64_t n      = rows_are_keys ? std::min(n_keys_, heads->ne[1]) : chunk_n_rows_;
    const int64_t n_all  = rows_are_keys ? n_keys_ : n_rows_;
    const int64_t half   = std::min<int64_t>(n_rot_, n_dims) / 2;
    start(record, heads->ne[2], n_all, n_dims);

    std::vector<float> row(static_cast<size_t>(n_dims));
    for (int64_t head = 0; head < heads->ne[2]; head++) {
        for (int64_t i = 0; i < n; i++) {
            float * out = record.data.data() + (head * n_all + first + i) * n_dims;
            read_row(heads, i, head, n_dims, out);
            if (rope_interleaved_) {
                row.assign(out, out + n_dims);
                for (int64_t d = 0; d < half; d++) {
                    out[d]        = row[static_cast<size_t>(2 * d)];
                    out[half + d] = row[static_cast<size_t>(2 * d + 1)];
                }
            }
        }
    }
}

// [n_kv, D, Hkv] → [Hkv, K, D]
void LlamaTaps::take_values(Record & record, const ggml_tensor * values) {
    const int64_t n_dims = values->ne[1];
    const int64_t n      = std::min(n_keys_, values->ne[0]);
    start(record, values->ne[2], n_keys_, n_dims);

    std::vector<float> row(static_cast<size_t>(n));
    for (int64_t head = 0; head < values->ne[2]; head++) {
        for (int64_t d = 0; d < n_dims; d++) {
            read_row(values, d, head, n, row.data());
            for (int64_t key = 0; key < n; key++) {
                record.data[static_cast<size_t>((head * n_keys_ + key) * n_dims + d)] = row[static_cast<size_t>(key)];
            }
        }
    }
}

// [n_kv, T, H] → [H, T, K]; keys that a chunk does not reach yet keep their zeros
void LlamaTaps::take_pattern(Record & record, const ggml_tensor * pattern) {
    const int64_t n = std::min(n_keys_, pattern->ne[0]);
    start(record, pattern->ne[2], n_rows_, n_keys_);
    for (int64_t head = 0; head < pattern->ne[2]; head++) {
        for (int64_t i = 0; i < chunk_n_rows_; i++) {
            read_row(pattern, i, head, n, record.data.data() + (head * n_rows_ + chunk_first_ + i) * n_keys_);
        }
    }
}

void LlamaTaps::take_raw_scores(const ggml_tensor * scores) {
    raw_scores_.resize(static_cast<size_t>(ggml_nelements(scores)));
    ggml_backend_tensor_get(scores, raw_scores_.data(), 0, ggml_nbytes(scores));
}

// Scores go raw into the softmax node, which holds their scale and mask.
void LlamaTaps::take_scores(Record & record, const ggml_tensor * soft_max) {
    float scale = 1.0f;
    float alibi = 0.0f;
    std::memcpy(&scale, soft_max->op_params, sizeof(float));
    std::memcpy(&alibi, soft_max->op_params + 1, sizeof(float));
    if (alibi > 0.0f) {
        fail("the attention scores of a model with ALiBi cannot be observed");
    }
    const int64_t       n_kv = soft_max->ne[0];
    const int64_t       n    = std::min(n_keys_, n_kv);
    const ggml_tensor * mask = soft_max->src[1];
    start(record, soft_max->ne[2], n_rows_, n_keys_);

    std::vector<float> masked(static_cast<size_t>(n), 0.0f);
    for (int64_t i = 0; i < chunk_n_rows_; i++) {
        if (mask != nullptr) {
            check_columns(mask, n);
            read_row(mask, i, 0, n, masked.data());
        }
        for (int64_t head = 0; head < soft_max->ne[2]; head++) {
            const float * raw = raw_scores_.data() + (head * soft_max->ne[1] + i) * n_kv;
            float *       out = record.data.data() + (head * n_rows_ + chunk_first_ + i) * n_keys_;
            std::fill(out, out + n_keys_, -std::numeric_limits<float>::infinity());
            for (int64_t key = 0; key < n; key++) {
                out[key] = raw[key] * scale + masked[static_cast<size_t>(key)];
            }
        }
    }
}

// [E, T]
void LlamaTaps::take_residual(Record & record, const ggml_tensor * residual) {
    if (residual->ne[1] != chunk_n_rows_) {
        fail_runtime("libllama's tensor ", residual->name, " has ", residual->ne[1], " rows, expected ", chunk_n_rows_);
    }
    start(record, 1, n_rows_, residual->ne[0]);
    for (int64_t i = 0; i < chunk_n_rows_; i++) {
        read_row(residual, i, 0, residual->ne[0], record.data.data() + (chunk_first_ + i) * residual->ne[0]);
    }
}

} // namespace buoy
