#include "report/matrix-pack.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

namespace buoy::report {

namespace {

using analysis::Array;

constexpr float code_max = 254;
constexpr char  no_value = '\xff';

void put_row(const float * values, size_t n, std::string & out) {
    float largest = 0;
    for (size_t i = 0; i < n; i++) {
        largest = std::isfinite(values[i]) ? std::max(largest, values[i]) : largest;
    }
    uint32_t bits = 0;
    std::memcpy(&bits, &largest, sizeof(bits));
    for (int shift = 0; shift < 32; shift += 8) {
        out += static_cast<char>(bits >> shift & 0xff);
    }
    for (size_t i = 0; i < n; i++) {
        const float share = largest > 0 ? std::max(values[i], 0.0f) / largest : 0;
        out += std::isfinite(values[i]) ? static_cast<char>(std::lround(std::sqrt(share) * code_max)) : no_value;
    }
}

// The mean over the first of three dimensions.
Array mean_of_first(const Array & array) {
    const size_t H = array.shape[0], n = array.values.size() / H;
    Array        out{{1, array.shape[1], array.shape[2]}, std::vector<float>(n)};
    for (size_t i = 0; i < n; i++) {
        double sum = 0;
        for (size_t h = 0; h < H; h++) {
            sum += static_cast<double>(array.values[h * n + i]);
        }
        out.values[i] = static_cast<float>(sum / static_cast<double>(H));
    }
    return out;
}

// [H, Q, K] to [H, groups of rows, groups of keys]
Array pooled(const Array & array, const std::vector<size_t> & row_group, size_t n_groups, size_t pool) {
    const size_t        H = array.shape[0], Q = array.shape[1], K = array.shape[2];
    const size_t        n_keys = (K + pool - 1) / pool;
    std::vector<double> n_rows(n_groups);
    for (size_t g : row_group) {
        n_rows[g] += 1;
    }
    std::vector<double> sums(H * n_groups * n_keys);
    for (size_t h = 0; h < H; h++) {
        for (size_t i = 0; i < Q; i++) {
            const float * from = array.values.data() + (h * Q + i) * K;
            double *      to   = sums.data() + (h * n_groups + row_group[i]) * n_keys;
            for (size_t j = 0; j < K; j++) {
                to[j / pool] += static_cast<double>(from[j]) / n_rows[row_group[i]];
            }
        }
    }
    return {{H, n_groups, n_keys}, std::vector<float>(sums.begin(), sums.end())};
}

PackedMatrix pack(const Array & array, std::vector<int32_t> rows) {
    PackedMatrix out;
    out.H    = array.shape[0];
    out.Q    = array.shape[1];
    out.K    = array.shape[2];
    out.rows = std::move(rows);
    out.bytes.reserve(out.H * out.Q * (4 + out.K) + 2);
    for (size_t row = 0; row < out.H * out.Q; row++) {
        put_row(array.values.data() + row * out.K, out.K, out.bytes);
    }
    return out;
}

} // namespace

PackedMatrix pack_rows(Array pattern, const std::vector<int32_t> & rows, bool heads, size_t pool) {
    if (pattern.shape.size() == 2) {
        pattern.shape.insert(pattern.shape.begin(), 1);
    }
    if (!heads && pattern.shape[0] > 1) {
        pattern = mean_of_first(pattern);
    }
    if (pool == 1) {
        return pack(pattern, rows);
    }
    std::vector<int32_t> groups;
    std::vector<size_t>  row_group;
    for (int32_t row : rows) {
        const auto group = static_cast<int32_t>(static_cast<size_t>(row) / pool);
        if (groups.empty() || groups.back() != group) {
            groups.push_back(group);
        }
        row_group.push_back(groups.size() - 1);
    }
    return pack(pooled(pattern, row_group, groups.size(), pool), groups);
}

PackedMatrix pack_received(Array received, bool heads, size_t pool) {
    received.shape.insert(received.shape.begin() + 1, 1);
    if (!heads && received.shape[0] > 1) {
        received = mean_of_first(received);
    }
    return pack(pool == 1 ? received : pooled(received, {0}, 1, pool), {});
}

PackedMatrix pack_regions(const Array & sums) { return pack({{1, sums.shape[0], sums.shape[1]}, sums.values}, {}); }

} // namespace buoy::report
