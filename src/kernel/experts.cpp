#include "kernel/experts.h"

#include "kernel/products.h"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

namespace buoy {

namespace {

// A route's tensor: this head, the first quad of each expert [X + 1], the slot of each place [places] (-1: padding), and the place
// of each slot [U·n].
struct RouteHead {
    int32_t n_expert, n_used, n_rows, n_places_max;
};
constexpr int64_t head_size = sizeof(RouteHead) / sizeof(int32_t);

struct Route {
    explicit Route(const ggml_tensor & tensor) {
        auto * data = static_cast<int32_t *>(tensor.data);
        head        = reinterpret_cast<RouteHead *>(data);
        first_quad  = data + head_size;
        slot_of     = first_quad + head->n_expert + 1;
        place_of    = slot_of + head->n_places_max;
    }

    int64_t quad_count() const { return first_quad[head->n_expert]; }
    int64_t quad_count(int64_t expert) const { return first_quad[expert + 1] - first_quad[expert]; }

    // Places of an expert that are not padding.
    int64_t row_count(int64_t expert) const {
        int64_t n = quad_count(expert) * kernel_quad;
        while (n > 0 && slot_of[first_quad[expert] * kernel_quad + n - 1] < 0) {
            n--;
        }
        return n;
    }

    RouteHead * head;
    int32_t *   first_quad;
    int32_t *   slot_of;
    int32_t *   place_of;
};

int64_t places_max(int64_t n_slots, int64_t n_expert) { // each expert with a row may end in a quad of one
    return (n_slots + (kernel_quad - 1) * std::min(n_slots, n_expert)) / kernel_quad * kernel_quad;
}

int32_t id_at(const ggml_tensor & chosen, int64_t slot) {
    const int64_t u = slot % chosen.ne[0], row = slot / chosen.ne[0];
    return *reinterpret_cast<const int32_t *>(static_cast<const char *>(chosen.data) +
                                              chosen.nb[0] * static_cast<size_t>(u) +
                                              chosen.nb[1] * static_cast<size_t>(row));
}

void run_route(ggml_tensor * dst, int ith, int, void * userdata) {
    if (ith != 0) {
        return;
    }
    const ggml_tensor & chosen           = *dst->src[0];
    const int64_t       n_slots          = chosen.ne[0] * chosen.ne[1];
    const auto          X                = static_cast<int64_t>(reinterpret_cast<intptr_t>(userdata));
    *static_cast<RouteHead *>(dst->data) = {static_cast<int32_t>(X), static_cast<int32_t>(chosen.ne[0]),
                                            static_cast<int32_t>(chosen.ne[1]),
                                            static_cast<int32_t>(places_max(n_slots, X))};
    Route                route(*dst);
    std::vector<int32_t> count(static_cast<size_t>(X));
    for (int64_t slot = 0; slot < n_slots; slot++) {
        count[static_cast<size_t>(id_at(chosen, slot))]++;
    }
    route.first_quad[0] = 0;
    for (int64_t x = 0; x < X; x++) {
        const auto quads              = (count[static_cast<size_t>(x)] + kernel_quad - 1) / kernel_quad;
        route.first_quad[x + 1]       = route.first_quad[x] + static_cast<int32_t>(quads);
        count[static_cast<size_t>(x)] = route.first_quad[x] * static_cast<int32_t>(kernel_quad); // the next free place
    }
    std::fill(route.slot_of, route.slot_of + route.quad_count() * kernel_quad, -1);
    for (int64_t slot = 0; slot < n_slots; slot++) {
        const int32_t place  = count[static_cast<size_t>(id_at(chosen, slot))]++;
        route.slot_of[place] = static_cast<int32_t>(slot);
        route.place_of[slot] = place;
    }
}

const float * row_of(const ggml_tensor & x, int64_t row) {
    return reinterpret_cast<const float *>(static_cast<const char *>(x.data) + x.nb[1] * static_cast<size_t>(row));
}

// Quads of the rows that row_of_place names; padding is at the end of a quad.
template <typename RowOfPlace>
void pack_quads(ggml_tensor & dst, const Route & route, int ith, int nth, const RowOfPlace & row_of_place) {
    const int64_t n_blocks = dst.ne[0] / static_cast<int64_t>(sizeof(PackedBlock));
    const int64_t last     = part(route.quad_count(), ith + 1, nth);
    for (int64_t quad = part(route.quad_count(), ith, nth); quad < last; quad++) {
        std::array<const float *, kernel_quad> rows{};
        size_t                                 n = 0;
        for (int64_t place = quad * kernel_quad; n < rows.size() && route.slot_of[place] >= 0; place++) {
            rows[n++] = row_of_place(place);
        }
        auto * to = static_cast<char *>(dst.data) + dst.nb[1] * static_cast<size_t>(quad);
        kernel_table()->pack(rows.data(), static_cast<int64_t>(n), n_blocks, reinterpret_cast<PackedBlock *>(to));
    }
}

void run_pack_routed(ggml_tensor * dst, int ith, int nth, void *) {
    const Route route(*dst->src[1]);
    pack_quads(*dst, route, ith, nth,
               [&](int64_t place) { return row_of(*dst->src[0], route.slot_of[place] / route.head->n_used); });
}

void run_pack_places(ggml_tensor * dst, int ith, int nth, void *) {
    const Route route(*dst->src[1]);
    pack_quads(*dst, route, ith, nth, [&](int64_t place) { return row_of(*dst->src[0], place); });
}

// Calls multiply(expert, rows, first group, last group, results) for this thread's share of the work, which is divided by what it
// costs: unpacking a group, then a multiplication for each quad.
template <typename Multiply>
void share_groups(const ggml_tensor & dst, const ggml_tensor & packed, const Route & route, int64_t n_groups, int ith,
                  int nth, const Multiply & multiply) {
    const auto cost_of = [&](int64_t expert) {
        const int64_t quads = route.quad_count(expert);
        return quads > 0 ? 2 + 3 * quads : 0; // unpacking takes about two thirds of a quad's time
    };
    int64_t total = 0;
    for (int64_t expert = 0; expert < route.head->n_expert; expert++) {
        total += cost_of(expert) * n_groups;
    }
    const int64_t begin = part(total, ith, nth), end = part(total, ith + 1, nth);
    int64_t       at = 0;
    for (int64_t expert = 0; expert < route.head->n_expert; expert++) {
        const int64_t cost = cost_of(expert);
        if (cost == 0) {
            continue;
        }
        const auto    group_at = [&](int64_t where) { return std::clamp<int64_t>((where - at) / cost, 0, n_groups); };
        const int64_t first = begin <= at ? 0 : group_at(begin), last = end <= at ? 0 : group_at(end);
        if (first < last) {
            const int64_t    quad = route.first_quad[expert];
            const PackedRows rows{static_cast<const char *>(packed.data) + packed.nb[1] * static_cast<size_t>(quad),
                                  packed.nb[1], route.row_count(expert)};
            const ResultRows to{static_cast<float *>(dst.data) + dst.ne[0] * quad * kernel_quad,
                                static_cast<size_t>(dst.ne[0])};
            multiply(expert, rows, first, last, to);
        }
        at += cost * n_groups;
    }
}

void run_multiply(ggml_tensor * dst, int ith, int nth, void *) {
    const ggml_tensor & w = *dst->src[0];
    share_groups(*dst, *dst->src[1], Route(*dst->src[2]), weight_matrix(w).group_count(), ith, nth,
                 [&](int64_t expert, const PackedRows & x, int64_t first, int64_t last, const ResultRows & to) {
                     multiply_groups(weight_matrix(w, expert), x, first, last, to);
                 });
}

void run_gated(ggml_tensor * dst, int ith, int nth, void * gating) {
    const ggml_tensor &gate = *dst->src[0], &up = *dst->src[1];
    share_groups(*dst, *dst->src[2], Route(*dst->src[3]), weight_matrix(gate).group_count(), ith, nth,
                 [&](int64_t expert, const PackedRows & x, int64_t first, int64_t last, const ResultRows & to) {
                     multiply_groups_gated(weight_matrix(gate, expert), weight_matrix(up, expert), x, first, last, to,
                                           gating_of(gating));
                 });
}

void run_sum(ggml_tensor * dst, int ith, int nth, void *) {
    const ggml_tensor &y = *dst->src[0], &weights = *dst->src[1];
    const Route        route(*dst->src[2]);
    const int64_t      U = route.head->n_used, M = dst->ne[0];
    for (int64_t row = part(dst->ne[1], ith, nth); row < part(dst->ne[1], ith + 1, nth); row++) {
        float *       to     = static_cast<float *>(dst->data) + M * row;
        const float * factor = static_cast<const float *>(weights.data) + U * row;
        std::fill(to, to + M, 0.0f);
        for (int64_t u = 0; u < U; u++) {
            const float * from = row_of(y, route.place_of[U * row + u]);
            for (int64_t i = 0; i < M; i++) {
                to[i] += factor[u] * from[i];
            }
        }
    }
}

ggml_tensor * custom(ggml_context * ctx, ggml_type type, int64_t ne0, int64_t ne1, std::vector<ggml_tensor *> args,
                     ggml_custom_op_t run, void * userdata = nullptr) {
    return ggml_custom_4d(ctx, type, ne0, ne1, 1, 1, args.data(), static_cast<int>(args.size()), run, GGML_N_TASKS_MAX,
                          userdata);
}

int64_t place_count_max(const ggml_tensor & route) { return route.ne[1] * kernel_quad; }

ggml_tensor * pack(ggml_context * ctx, ggml_tensor * x, ggml_tensor * route, ggml_custom_op_t run) {
    const int64_t size = x->ne[0] / kernel_block * static_cast<int64_t>(sizeof(PackedBlock));
    return custom(ctx, GGML_TYPE_I8, size, place_count_max(*route) / kernel_quad, {x, route}, run);
}

} // namespace

ggml_tensor * route_rows(ggml_context * ctx, ggml_tensor * chosen, int64_t n_expert) {
    const int64_t n_slots = chosen->ne[0] * chosen->ne[1], places = places_max(n_slots, n_expert);
    // one row for each quad, so that its shape tells their number
    const int64_t quads = places / kernel_quad, length = head_size + n_expert + 1 + places + n_slots;
    ggml_tensor * args[] = {chosen};
    return ggml_custom_4d(ctx, GGML_TYPE_I32, (length + quads - 1) / quads, quads, 1, 1, args, 1, run_route, 1,
                          reinterpret_cast<void *>(static_cast<intptr_t>(n_expert)));
}

ggml_tensor * pack_routed(ggml_context * ctx, ggml_tensor * x, ggml_tensor * route) {
    return pack(ctx, x, route, run_pack_routed);
}

ggml_tensor * pack_places(ggml_context * ctx, ggml_tensor * y, ggml_tensor * route) {
    return pack(ctx, y, route, run_pack_places);
}

ggml_tensor * mul_routed(ggml_context * ctx, ggml_tensor * w, ggml_tensor * packed, ggml_tensor * route) {
    return custom(ctx, GGML_TYPE_F32, w->ne[1], place_count_max(*route), {w, packed, route}, run_multiply);
}

ggml_tensor * mul_routed_gated(ggml_context * ctx, ggml_tensor * gate, ggml_tensor * up, ggml_tensor * packed,
                               ggml_tensor * route, Gating gating) {
    return custom(ctx, GGML_TYPE_F32, gate->ne[1], place_count_max(*route), {gate, up, packed, route}, run_gated,
                  as_userdata(gating));
}

ggml_tensor * sum_routed(ggml_context * ctx, ggml_tensor * y, ggml_tensor * weights, ggml_tensor * route) {
    return custom(ctx, GGML_TYPE_F32, y->ne[0], route->src[0]->ne[1], {y, weights, route}, run_sum);
}

} // namespace buoy
