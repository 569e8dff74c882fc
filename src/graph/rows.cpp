// Which rows of a pass are built: all of them, those somebody asked for, or a piece.

#include "graph/graph.h"
#include "graph/kv-store.h"

#include <algorithm>

namespace buoy {

bool Graph::is_watched(int32_t il) const {
    return std::any_of(key_.sequences.begin(), key_.sequences.end(),
                       [il](const SequenceKey & seq) { return seq.is_edited(il) || seq.is_tapped(il); });
}

bool Graph::rows_restricted(int32_t il) const {
    const auto whole = [il](const SequenceKey & seq) { return seq.is_edited(il) || seq.has_tap(Tap::resid_post, il); };
    return il == hp_.n_layer - 1 && !key_.all_rows && !key_.refresh &&
           std::none_of(key_.sequences.begin(), key_.sequences.end(), whole);
}

int64_t Graph::n_query_rows(int32_t il) const { return rows_restricted(il) ? key_.n_rows() : key_.n_tokens(); }

Graph::Span Graph::span(size_t sequence, bool needed) const {
    const auto n_of = [needed](const SequenceKey & seq) { return needed ? seq.n_rows : seq.n_tokens; };
    Span       found;
    for (size_t s = 0; s < sequence; s++) {
        found.first += n_of(key_.sequences[s]);
    }
    found.n = n_of(key_.sequences[sequence]);
    return found;
}

ggml_tensor * Graph::columns(ggml_tensor * x, int dim, const Span & span) {
    if (span.n == x->ne[dim]) {
        return x;
    }
    const size_t at = x->nb[dim] * static_cast<size_t>(span.first);
    return dim == 2 ? ggml_view_3d(ctx_.get(), x, x->ne[0], x->ne[1], span.n, x->nb[1], x->nb[2], at)
                    : ggml_view_2d(ctx_.get(), x, x->ne[0], span.n, x->nb[1], at);
}

// Long passes are built in equal pieces, so that their widest activations exist for one piece at a time. Taps and edits want whole
// tensors, and sequences lie behind each other, so those are not divided.
int64_t Graph::piece_size(int32_t il, int64_t n) const {
    constexpr int64_t rows_per_piece = 256, n_pieces_max = 16;
    const int64_t     n_pieces = std::min((n + rows_per_piece - 1) / rows_per_piece, n_pieces_max);
    return key_.sequences.size() > 1 || key_.products || key_.refresh || key_.reset || is_watched(il)
               ? n
               : (n + n_pieces - 1) / n_pieces;
}

// The rows attention computes for n: ggml's flash attention on a CPU works in tiles of 64 queries and is several times slower
// below that, so a block's worth of rows is filled up to a tile.
int64_t Graph::tile_rows(size_t sequence, int64_t n) const {
    constexpr int64_t tile = 64, worth_it = 10;
    const bool        quantised = key_.sequences[sequence].kv == KvUse::store &&
                           (ggml_is_quantized(store_.k(0)->type) || ggml_is_quantized(store_.v(0)->type));
    return flash_on_cpu_ && !model_.use_kernels() && !quantised && n >= worth_it && n < tile ? tile : n;
}

// Restricts what rope() and attention() see to rows [first, first + n).
void Graph::enter(const Rows & rows, int64_t first, int64_t n) {
    rows_       = rows;
    rows_.first = first;
    rows_.n     = n;
    if (n == rows.n_all) {
        return;
    }
    const auto at   = [first](const ggml_tensor * t) { return t->nb[0] * static_cast<size_t>(first); };
    rows_.positions = ggml_view_1d(ctx_.get(), rows.positions, n, at(rows.positions));
    if (rows.cells != nullptr) {
        rows_.cells = ggml_view_1d(ctx_.get(), rows.cells, n, at(rows.cells));
    }
    if (rows.scales != nullptr) {
        rows_.scales = ggml_view_2d(ctx_.get(), rows.scales, 1, n, rows.scales->nb[1], at(rows.scales));
    }
}

ggml_tensor * Graph::each_sequence(ggml_tensor * x, const RowsOf & make) {
    if (key_.sequences.size() == 1) {
        return make(x, 0);
    }
    std::vector<ggml_tensor *> parts;
    for (size_t s = 0; s < key_.sequences.size(); s++) {
        if (const Span rows = span(s, rows_.needed); rows.n > 0) {
            parts.push_back(make(columns(x, 1, rows), s));
        }
    }
    return joined(parts);
}

ggml_tensor * Graph::by_mode(ggml_tensor * x, const ModeOf & make) {
    const bool first = is_canvas(0);
    const bool same  = std::all_of(key_.sequences.begin(), key_.sequences.end(),
                                   [&](const SequenceKey & seq) { return seq.canvas == first; });
    return same ? make(x, first)
                : each_sequence(x, [&](ggml_tensor * rows, size_t s) { return make(rows, is_canvas(s)); });
}

void Graph::keys_values(int32_t il, ggml_tensor * x, const KeysOf & make) {
    if (is_partial(il)) {
        partial_keys(il, x, make);
        return;
    }
    track_before(il);
    const int64_t n_all = x->ne[1];
    const int64_t piece =
        key_.all_stored() ? piece_size(il, n_all) : n_all; // keys that are not stored must stay together
    for (int64_t first = 0; first < n_all; first += piece) {
        const int64_t n = std::min(piece, n_all - first);
        enter({.positions = inputs_.positions, .cells = inputs_.cells, .n_all = n_all}, first, n);
        keys_ = make(columns(x, 1, {first, n}));
        store_keys(il, keys_);
    }
}

void Graph::store_keys(int32_t il, const KeysValues & kv) {
    const auto write = [&](ggml_tensor * k, ggml_tensor * v, ggml_tensor * cells) {
        ggml_build_forward_expand(graph_, store_.write(ctx_.get(), store_.k(il), k, cells));
        ggml_build_forward_expand(graph_, store_.write(ctx_.get(), store_.v(il), v, cells));
    };
    if (key_.all_stored()) {
        write(kv.k, kv.v, rows_.cells);
        return;
    }
    for (size_t s = 0; s < key_.sequences.size(); s++) {
        if (key_.sequences[s].kv == KvUse::store) {
            const Span    at = span(s, false);
            ggml_tensor * cells =
                ggml_view_1d(ctx_.get(), rows_.cells, at.n, rows_.cells->nb[0] * static_cast<size_t>(at.first));
            write(columns(kv.k, 2, at), columns(kv.v, 2, at), cells);
        }
    }
}

ggml_tensor * Graph::rows_needed(int32_t il, ggml_tensor * x, const RestOf & make) {
    show_dropped_rows(il, x, make);
    if (is_partial(il)) {
        return partial_rows(il, x, make);
    }
    if (n_query_rows(il) == 0) {
        return nullptr;
    }
    n_layer_rows_ += n_query_rows(il);
    Rows wanted = {.positions = inputs_.positions, .scales = inputs_.scales};
    if (rows_restricted(il)) {
        x      = ggml_get_rows(ctx_.get(), x, inputs_.rows); // [E, rows]
        wanted = {.positions = inputs_.positions_rows, .scales = inputs_.scales_rows, .needed = true};
    }
    const int64_t n_all = x->ne[1];
    const int64_t piece = piece_size(il, n_all);
    wanted.n_all        = n_all;
    if (piece == n_all) {
        enter(wanted, 0, n_all);
        ggml_tensor * made = make(x);
        keep_added(il, x, made);
        return made;
    }
    x = own_rows(il, x);
    for (int64_t first = 0; first < n_all; first += piece) {
        const int64_t n    = std::min(piece, n_all - first);
        ggml_tensor * part = columns(x, 1, {first, n});
        enter(wanted, first, n);
        // a piece's rows are read by nobody else in this layer, so its result takes their place
        pinned_.push_back({il, ggml_cpy(ctx_.get(), make(part), part)});
        ggml_build_forward_expand(graph_, pinned_.back().tensor);
    }
    return x;
}

// The rows in memory of the layer's device, where pieces can be written into them.
ggml_tensor * Graph::own_rows(int32_t il, ggml_tensor * x) {
    const bool same = own_rows_.tensor == x && model_.attention_device(own_rows_.layer) == model_.attention_device(il);
    if (model_.placement().cpu_only() || same) {
        return x;
    }
    own_rows_ = {il, ggml_cont(ctx_.get(), x)};
    pinned_.push_back(own_rows_);
    return own_rows_.tensor;
}

// The last layer of a pass drops the rows that nobody asked for, a partial refresh those that it leaves as they were; taps are about
// all of them. So its queries are computed for
// all rows once more, and what follows from them is left out of the graph.
void Graph::show_dropped_rows(int32_t il, ggml_tensor * x, const RestOf & make) {
    const bool tapped = std::any_of(key_.sequences.begin(), key_.sequences.end(),
                                    [il](const SequenceKey & seq) { return seq.is_tapped(il); });
    if ((rows_restricted(il) || is_partial(il)) && tapped) {
        enter({.positions = inputs_.positions, .scales = inputs_.scales, .n_all = x->ne[1]}, 0, x->ne[1]);
        showing_ = true;
        make(x);
        showing_ = false;
    }
}

} // namespace buoy
