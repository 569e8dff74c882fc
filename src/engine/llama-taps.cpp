#include "engine/llama-taps.h"

#include "buoy/error.h"

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

void LlamaTaps::begin(const std::vector<TapPoint> & points, int64_t n_rows, int64_t n_keys) {
    records_.clear();
    for (const TapPoint & point : points) {
        records_.push_back({point, {}, {}});
    }
    n_rows_ = n_rows;
    n_keys_ = n_keys;
    error_  = nullptr;
}

void LlamaTaps::begin_chunk(int64_t row_first, int64_t n_rows) {
    chunk_first_  = row_first;
    chunk_n_rows_ = n_rows;
}

void LlamaTaps::deliver(const TapSink & sink) {
    if (error_) {
        std::rethrow_exception(error_);
    }
    for (const Record & record : records_) {
        if (record.data.empty()) {
            fail("the model has no ", tap_name(record.point.tap, record.point.layer), " that libllama would show");
        }
        sink({record.point, 0, record.shape, record.data.data()});
    }
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
    const auto found = std::find_if(records_.begin(), records_.end(), [&](const Record & record) {
        return record.point == TapPoint{tap, layer};
    });
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
    const bool is_product = node == Node::scores && tensor->op == GGML_OP_MUL_MAT;
    if (Record * record = find(Tap::rot_k, layer); record && is_product) {
        take_heads(*record, tensor->src[0], true);
    }
    if (Record * record = find(Tap::rot_q, layer); record && is_product) {
        take_heads(*record, tensor->src[1], false);
    }
    if (find(Tap::attn_scores, layer) && node == Node::scores) {
        take_raw_scores(tensor);
    }
    if (Record * record = find(Tap::attn_scores, layer); record && node == Node::soft_max) {
        take_scores(*record, tensor);
    }
    if (Record * record = find(Tap::pattern, layer); record && node == Node::soft_max) {
        take_pattern(*record, tensor);
    }
    if (Record * record = find(Tap::v, layer); record && node == Node::context) {
        take_values(*record, tensor->src[0]);
    }
    if (Record * record = find(Tap::resid_post, layer); record && node == Node::block_out) {
        take_residual(*record, tensor);
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
