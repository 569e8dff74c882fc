#include "imatrix-collector.h"

#include "base/fail.h"
#include "base/printable.h"

#include <ggml-backend.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace buoy {

namespace {

const char * bytes_of(const ggml_tensor * tensor, std::vector<char> & copy) {
    if (ggml_backend_buffer_is_host(tensor->buffer)) {
        return static_cast<const char *>(tensor->data);
    }
    copy.resize(ggml_nbytes(tensor));
    ggml_backend_tensor_get(tensor, copy.data(), 0, copy.size());
    return copy.data();
}

size_t offset(size_t stride, int64_t i) { return stride * static_cast<size_t>(i); }

void add_squares(const char * row, int64_t n, float * sums) {
    const auto * values = reinterpret_cast<const float *>(row);
    for (int64_t i = 0; i < n; ++i) {
        sums[i] += values[i] * values[i];
    }
}

} // namespace

bool ImatrixCollector::wants(const ggml_tensor * node) {
    if (node->op != GGML_OP_MUL_MAT && node->op != GGML_OP_MUL_MAT_ID) {
        return false;
    }
    const std::string name   = node->src[0]->name;
    const std::string suffix = ".weight";
    return node->src[1]->type == GGML_TYPE_F32 && name.size() > suffix.size() &&
           name.compare(name.size() - suffix.size(), suffix.size(), suffix) == 0;
}

void ImatrixCollector::add(const ggml_tensor * node) {
    const ggml_tensor * weight = node->src[0];
    const ggml_tensor * x      = node->src[1]; // [columns, rows, …]; by expert [columns, experts used or 1, tokens]
    const int64_t       n_cols = x->ne[0];
    const bool          by_id  = node->op == GGML_OP_MUL_MAT_ID;
    const int64_t       n_each = by_id ? weight->ne[2] : 1;
    ImatrixSums &       entry  = sums_[weight->name];
    entry.squares.resize(static_cast<size_t>(n_cols * n_each));
    entry.counts.resize(static_cast<size_t>(n_each));

    const char * data = bytes_of(x, activations_);
    if (by_id) {
        const ggml_tensor * ids = node->src[2]; // i32 [experts used, tokens]
        const char *        at  = bytes_of(ids, ids_);
        for (int64_t token = 0; token < ids->ne[1]; ++token) {
            for (int64_t i = 0; i < ids->ne[0]; ++i) {
                int32_t expert = 0;
                std::memcpy(&expert, at + offset(ids->nb[1], token) + offset(ids->nb[0], i), sizeof(expert));
                add_squares(data + offset(x->nb[1], i % x->ne[1]) + offset(x->nb[2], token), n_cols,
                            entry.squares.data() + expert * n_cols);
                entry.counts[static_cast<size_t>(expert)] += 1;
            }
        }
        return;
    }
    for (int64_t i3 = 0; i3 < x->ne[3]; ++i3) {
        for (int64_t i2 = 0; i2 < x->ne[2]; ++i2) {
            for (int64_t i1 = 0; i1 < x->ne[1]; ++i1) {
                add_squares(data + offset(x->nb[1], i1) + offset(x->nb[2], i2) + offset(x->nb[3], i3), n_cols,
                            entry.squares.data());
            }
        }
    }
    entry.counts[0] += static_cast<float>(ggml_nrows(x));
}

void ImatrixCollector::check(const std::string & model_path) const {
    for (const auto & [name, entry] : sums_) {
        if (!std::all_of(entry.squares.begin(), entry.squares.end(), [](float sum) { return std::isfinite(sum); })) {
            fail_runtime(printable(model_path), ": the activations that reach ", in_quotes(name),
                         " are NaN or infinite");
        }
    }
}

} // namespace buoy
