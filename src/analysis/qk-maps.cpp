#include "analysis/qk-maps.h"

#include "analysis/meta-reader.h"
#include "analysis/retrieval-score.h"
#include "buoy/message.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace buoy::analysis {

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

// [n, D], row by row.
using Vectors = std::vector<double>;

Vectors of_head(const Array & array, size_t head) {
    const size_t n = array.shape[1] * array.shape[2];
    return {array.values.begin() + static_cast<std::ptrdiff_t>(head * n),
            array.values.begin() + static_cast<std::ptrdiff_t>((head + 1) * n)};
}

Vectors mean_of_heads(const Array & array, const std::vector<size_t> & heads) {
    const size_t n = array.shape[1] * array.shape[2];
    Vectors      out(n);
    for (size_t h : heads) {
        for (size_t i = 0; i < n; i++) {
            out[i] += static_cast<double>(array.values[h * n + i]) / static_cast<double>(heads.size());
        }
    }
    return out;
}

double dot(const double * a, const double * b, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

bool attends(const Recording & recording, int32_t query, size_t key) {
    const auto j = static_cast<int32_t>(key);
    switch (recording.attention()) {
        case AttentionKind::full: return true;
        case AttentionKind::causal: return j <= query;
        case AttentionKind::block_causal: {
            const int32_t length = std::max(recording.block_length(), 1);
            return j / length <= query / length;
        }
    }
    return true;
}

template <typename TakeQ, typename TakeK>
QkMaps maps_of(const Recording & recording, const QkPass & pass, const TakeQ & take_q, const TakeK & take_k) {
    QkMaps out;
    out.n_rows = pass.n_rows;
    out.n_keys = pass.n_keys;
    for (std::vector<double> * map : {&out.qk, &out.cos, &out.norms}) {
        map->assign(pass.n_rows * pass.n_keys, nan);
    }
    for (const QkPass::Part & part : pass.parts) {
        const Vectors q = take_q(part.q), k = take_k(part.k);
        const size_t  D = part.q.shape[2];
        for (size_t row : part.rows) {
            const int32_t  position = recording.rows(part.step)[row];
            const size_t   to       = out.positions.size() * pass.n_keys;
            const double * from     = q.data() + row * D;
            out.positions.push_back(position);
            for (size_t j = 0; j < part.k.shape[1]; j++) {
                if (attends(recording, position, j)) {
                    const double * key    = k.data() + j * D;
                    const double   length = std::sqrt(dot(from, from, D) * dot(key, key, D));
                    out.qk[to + j]        = dot(from, key, D);
                    out.norms[to + j]     = length;
                    out.cos[to + j]       = length > 0 ? out.qk[to + j] / length : 0;
                }
            }
        }
    }
    return out;
}

} // namespace

std::vector<size_t> key_heads(const Recording & recording, const std::vector<int32_t> & heads, size_t n_kv) {
    const MetaReader    meta(meta_of(recording), printable(recording.path()) + ": meta.json");
    const size_t        n_head = meta.count({"model", "n_head"});
    std::vector<size_t> out;
    for (int32_t head : heads) {
        if (head < 0 || static_cast<size_t>(head) >= n_head) {
            fail(printable(recording.path()), ": meta.json: there is no head ", head, ", the model has ", n_head);
        }
        out.push_back(static_cast<size_t>(head) * n_kv / n_head); // several heads share one of k
    }
    return out;
}

QkPass read_qk(const Recording & recording, const std::vector<StepRows> & rows, int32_t layer) {
    QkPass pass;
    size_t n_heads_kv = 0;
    pass.heads        = recorded_heads(recording);
    for (const StepRows & one : rows) {
        QkPass::Part part{recording.read(Tap::rot_q, one.step, layer), recording.read(Tap::rot_k, one.step, layer),
                          one.rows, one.step};
        const size_t H = part.q.shape[0], G = part.k.shape[0];
        if (part.q.shape[2] != part.k.shape[2] || H != pass.heads.size() || (!pass.parts.empty() && G != n_heads_kv)) {
            fail(printable(recording.path()), ": step ", one.step, ", layer ", layer,
                 ": the shapes of q and k do not match");
        }
        n_heads_kv = G;
        pass.n_rows += one.rows.size();
        pass.n_keys = std::max(pass.n_keys, part.k.shape[1]);
        pass.parts.push_back(std::move(part));
    }
    pass.k_heads = key_heads(recording, pass.heads, n_heads_kv);
    return pass;
}

QkMaps head_maps(const Recording & recording, const QkPass & pass, int32_t head) {
    const auto found = std::find(pass.heads.begin(), pass.heads.end(), head);
    if (found == pass.heads.end()) {
        fail("`head`: ", printable(recording.path()), ": head ", head, " was not recorded (`record.heads`)");
    }
    const auto at = static_cast<size_t>(found - pass.heads.begin());
    return maps_of(
        recording, pass, [&](const Array & q) { return of_head(q, at); },
        [&](const Array & k) { return of_head(k, pass.k_heads[at]); });
}

QkMaps mean_maps(const Recording & recording, const QkPass & pass) {
    std::vector<size_t> all(pass.heads.size());
    std::iota(all.begin(), all.end(), 0);
    return maps_of(
        recording, pass, [&](const Array & q) { return mean_of_heads(q, all); },
        [&](const Array & k) { return mean_of_heads(k, pass.k_heads); });
}

QkDifference difference_of(const QkMaps & maps, const std::vector<size_t> & anchors) {
    Mean qk, angle, norm, rest, cos, norms;
    for (size_t i = 0; i < maps.n_rows; i++) {
        Mean values[2][3]; // others and anchors: qk, cos, norms
        for (size_t j = 0; j < maps.n_keys; j++) {
            const bool   anchor = std::binary_search(anchors.begin(), anchors.end(), j);
            const size_t at     = i * maps.n_keys + j;
            values[anchor][0].add(maps.qk[at]);
            values[anchor][1].add(maps.cos[at]);
            values[anchor][2].add(maps.norms[at]);
        }
        const double Co = values[0][1].value(), Ca = values[1][1].value();
        const double No = values[0][2].value(), Na = values[1][2].value();
        const double gain     = values[1][0].value() - values[0][0].value(); // NaN for a row that sees only one kind
        const double by_angle = (Ca - Co) * (Na + No) / 2;
        const double by_norm  = (Na - No) * (Ca + Co) / 2;
        qk.add(gain);
        angle.add(by_angle);
        norm.add(by_norm);
        rest.add(gain - by_angle - by_norm);
        cos.add(Ca - Co);
        norms.add(Na - No);
    }
    return {qk.value(), angle.value(), norm.value(), rest.value(), cos.value(), norms.value()};
}

QkDifference mean_difference(const Recording & recording, const QkPass & pass, const std::vector<size_t> & anchors) {
    Mean qk, angle, norm, rest, cos, norms;
    for (int32_t head : pass.heads) {
        const QkDifference one = difference_of(head_maps(recording, pass, head), anchors);
        qk.add(one.qk);
        angle.add(one.angle);
        norm.add(one.norm);
        rest.add(one.rest);
        cos.add(one.cos);
        norms.add(one.norms);
    }
    return {qk.value(), angle.value(), norm.value(), rest.value(), cos.value(), norms.value()};
}

Json rows_json(const QkMaps & maps, const std::vector<double> & values) {
    Json out = Json::array();
    for (size_t i = 0; i < maps.n_rows; i++) {
        const auto begin = values.begin() + static_cast<std::ptrdiff_t>(i * maps.n_keys);
        out.push_back(numbers({begin, begin + static_cast<std::ptrdiff_t>(maps.n_keys)}));
    }
    return out;
}

} // namespace buoy::analysis
