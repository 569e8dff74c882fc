#pragma once

#include "buoy/context.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace buoy {

// Everything that decides a graph's structure. Two passes with equal keys run the same graph.
struct ObserverKey {
    std::vector<TapPoint> taps;
    int64_t               n_heads   = 0; // of a selection, which is an input; 0: all
    int64_t               n_rows    = 0; // the same
    int64_t               n_regions = 0;

    bool operator==(const ObserverKey & other) const = default;
    bool has_tap(const TapPoint & point) const;
};

struct SequenceKey {
    int64_t                  n_tokens    = 0; // T
    int64_t                  n_rows      = 0; // R
    int64_t                  n_kv        = 0; // K
    int32_t                  sequence    = 0; // of the store
    bool                     masked      = false;
    bool                     canvas      = false; // of a model that writes canvases: this is one, not text that is read
    bool                     conditioned = false; // by logits in the store
    bool                     keeps       = false; // logits, there
    bool                     draws       = false;
    KvUse                    kv          = KvUse::none;
    OutputKind               output      = OutputKind::none;
    std::optional<Guidance>  guidance;
    size_t                   leader = 0; // whose edits it shares: its own index, or that of the sequence it guides
    std::vector<ObserverKey> observers;
    std::vector<int32_t>     edited;                // layers, ascending
    std::vector<int32_t>     probed;                // those of them whose unedited pattern is looked at first
    bool                     edits_by_head = false; // heads may be edited differently

    bool operator==(const SequenceKey & other) const = default;
    bool has_tap(Tap tap, int32_t layer) const; // of any observer, reduced or not
    bool is_tapped(int32_t layer) const;
    bool is_edited(int32_t layer) const;
    bool is_probed(int32_t layer) const;
};

// Of a DriftReset.
struct ResetKey {
    int64_t n_track = 0; // 0: nothing is compared
    int64_t n_keys  = 0; // without padding

    bool operator==(const ResetKey & other) const = default;
};

struct GraphKey {
    std::vector<SequenceKey> sequences;
    bool                     all_rows = false; // every sequence's rows are all of its tokens, in order
    bool                     products = false; // somebody observes them
    bool                     extra    = false; // the embedding has an extra input
    // of a pass that chooses its rows, with one sequence
    int32_t                       layer_first = 0; // where it begins, with inputs that are stored
    std::optional<PartialRefresh> refresh;
    std::optional<ResetKey>       reset;

    bool    operator==(const GraphKey & other) const = default;
    int64_t n_tokens() const; // N
    int64_t n_rows() const;
    bool    all_stored() const; // K/V of every sequence are
};

} // namespace buoy
