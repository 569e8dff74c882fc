#include "observe/record-member.h"

#include "buoy/message.h"
#include "engine/request-check.h"

#include <ggml.h>

#include <cmath>
#include <cstdio>
#include <cstring>

namespace buoy {

namespace {

template <typename T>
std::string typed_array(NpyType type, const std::vector<int64_t> & shape, const std::vector<T> & data) {
    std::string  bytes = npy_header(type, shape);
    const size_t start = bytes.size();
    bytes.resize(start + data.size() * sizeof(T));
    if (!data.empty()) {
        std::memcpy(bytes.data() + start, data.data(), data.size() * sizeof(T));
    }
    return bytes;
}

int64_t length(const std::vector<int32_t> & values) { return static_cast<int64_t>(values.size()); }

} // namespace

const char * tap_folder(Tap tap) {
    switch (tap) {
        case Tap::attn_scores: return "scores";
        case Tap::pattern: return "attn";
        case Tap::rot_q: return "q";
        case Tap::rot_k: return "k";
        case Tap::v: return "v_norm";
        case Tap::resid_post: return "resid";
    }
    return "unknown";
}

std::string rows_name(int32_t step) {
    char text[40];
    std::snprintf(text, sizeof(text), "rows/step_%04d.npy", step);
    return text;
}

std::string computed_name(int32_t step) {
    char text[40];
    std::snprintf(text, sizeof(text), "computed/step_%04d.npy", step);
    return text;
}

std::string tap_member_name(Tap tap, int32_t step, int32_t layer) {
    char text[80];
    std::snprintf(text, sizeof(text), "%s/step_%04d/layer_%02d.npy", tap_folder(tap), step, layer);
    return text;
}

NpyType npy_type(RecordType type) { return type == RecordType::f16 ? NpyType::f2 : NpyType::f4; }

std::vector<int64_t> tap_member_shape(Tap tap, const RecordChoice & choice, const ModelInfo & info, int64_t n_rows,
                                      int64_t n_keys) {
    const int64_t n_heads = choice.heads.empty() ? info.n_head : length(choice.heads);
    switch (tap) {
        case Tap::attn_scores: return {n_heads, n_rows, n_keys};
        case Tap::rot_q: return {n_heads, n_rows, info.head_dim};
        case Tap::rot_k: return {info.n_head_kv, n_keys, info.head_dim};
        case Tap::v: return {info.n_head_kv, n_keys};
        case Tap::resid_post: return {n_rows, info.n_embd};
        case Tap::pattern: break;
    }
    switch (choice.reduce) {
        case TapReduce::none: return {n_heads, n_rows, n_keys};
        case TapReduce::heads: return {n_rows, n_keys};
        case TapReduce::received: return {n_heads, n_keys};
        case TapReduce::regions: break;
    }
    return {choice.n_regions, choice.n_regions};
}

std::string array_member(const std::vector<int64_t> & shape, const std::vector<int32_t> & data) {
    return typed_array(NpyType::i4, shape, data);
}

std::string array_member(const std::vector<int64_t> & shape, const std::vector<float> & data) {
    return typed_array(NpyType::f4, shape, data);
}

TapMember::TapMember(const TapEvent & event, const RecordChoice & choice, const std::vector<int32_t> & rows)
    : event_(event), type_(choice.type) {
    const auto & [outer, middle, inner] = event.shape;
    switch (event.point.tap) {
        case Tap::attn_scores: shape_ = {outer, middle, inner}; break;
        case Tap::rot_q:
            heads_ = all_if_empty(choice.heads, outer);
            rows_  = all_if_empty(rows, middle);
            shape_ = {length(heads_), length(rows_), inner};
            break;
        case Tap::rot_k: shape_ = {outer, middle, inner}; break;
        case Tap::v: shape_ = {outer, middle}; break;
        case Tap::resid_post:
            heads_ = {0};
            rows_  = all_if_empty(rows, middle);
            shape_ = {length(rows_), inner};
            break;
        case Tap::pattern:
            switch (event.point.reduce) {
                case TapReduce::none: shape_ = {outer, middle, inner}; break;
                case TapReduce::heads:
                case TapReduce::regions: shape_ = {middle, inner}; break;
                case TapReduce::received: shape_ = {outer, inner}; break;
            }
            break;
    }
}

size_t TapMember::size() const {
    size_t n = npy_item_size(npy_type(type_));
    for (int64_t extent : shape_) {
        n *= static_cast<size_t>(extent);
    }
    return npy_header(npy_type(type_), shape_).size() + n;
}

void TapMember::append(std::string & out, size_t & at, const float * data, size_t n, size_t & n_overflow) const {
    if (type_ == RecordType::f32) {
        std::memcpy(out.data() + at, data, n * sizeof(float));
        at += n * sizeof(float);
        return;
    }
    auto * halves = reinterpret_cast<ggml_fp16_t *>(out.data() + at); // headers are multiples of 64 bytes
    ggml_fp32_to_fp16_row(data, halves, static_cast<int64_t>(n));
    at += n * sizeof(ggml_fp16_t);
    for (size_t i = 0; event_.point.tap != Tap::pattern && i < n; i++) {
        n_overflow += (halves[i] & 0x7fff) == 0x7c00 && std::isfinite(data[i]) ? 1 : 0;
    }
}

std::string TapMember::bytes(size_t & n_overflow) const {
    const size_t total = size();
    std::string  out   = npy_header(npy_type(type_), shape_);
    size_t       at    = out.size();
    out.resize(total);
    const auto middle = static_cast<size_t>(event_.shape[1]);
    const auto inner  = static_cast<size_t>(event_.shape[2]);
    const auto outer  = static_cast<size_t>(event_.shape[0]);
    if (event_.point.tap == Tap::v) { // norms of the vectors
        std::vector<float> norms(outer * middle);
        for (size_t i = 0; i < norms.size(); i++) {
            double sum = 0.0;
            for (size_t d = 0; d < inner; d++) {
                const auto value = static_cast<double>(event_.data[i * inner + d]);
                sum += value * value;
            }
            norms[i] = static_cast<float>(std::sqrt(sum));
        }
        append(out, at, norms.data(), norms.size(), n_overflow);
    } else if (rows_.empty()) {
        append(out, at, event_.data, outer * middle * inner, n_overflow);
    } else {
        for (int32_t head : heads_) {
            for (int32_t row : rows_) {
                const size_t from = (static_cast<size_t>(head) * middle + static_cast<size_t>(row)) * inner;
                append(out, at, event_.data + from, inner, n_overflow);
            }
        }
    }
    if (at != total) {
        fail_runtime(tap_name(event_.point.tap, event_.point.layer), ": ", at, " bytes to record, expected ", total);
    }
    return out;
}

} // namespace buoy
