#include "graph/graph-key.h"

#include <algorithm>

namespace buoy {

bool ObserverKey::has_tap(const TapPoint & point) const {
    return std::find(taps.begin(), taps.end(), point) != taps.end();
}

bool SequenceKey::has_tap(Tap tap, int32_t layer) const {
    return std::any_of(observers.begin(), observers.end(), [&](const ObserverKey & observer) {
        return std::any_of(observer.taps.begin(), observer.taps.end(),
                           [&](const TapPoint & point) { return point.tap == tap && point.layer == layer; });
    });
}

bool SequenceKey::is_tapped(int32_t layer) const {
    return std::any_of(observers.begin(), observers.end(), [&](const ObserverKey & observer) {
        return std::any_of(observer.taps.begin(), observer.taps.end(),
                           [&](const TapPoint & point) { return point.layer == layer; });
    });
}

bool SequenceKey::is_edited(int32_t layer) const { return std::binary_search(edited.begin(), edited.end(), layer); }

bool SequenceKey::is_probed(int32_t layer) const { return std::binary_search(probed.begin(), probed.end(), layer); }

int64_t GraphKey::n_tokens() const {
    int64_t n = 0;
    for (const SequenceKey & sequence : sequences) {
        n += sequence.n_tokens;
    }
    return n;
}

bool GraphKey::all_stored() const {
    return std::all_of(sequences.begin(), sequences.end(),
                       [](const SequenceKey & sequence) { return sequence.kv == KvUse::store; });
}

int64_t GraphKey::n_rows() const {
    int64_t n = 0;
    for (const SequenceKey & sequence : sequences) {
        n += sequence.n_rows;
    }
    return n;
}

} // namespace buoy
