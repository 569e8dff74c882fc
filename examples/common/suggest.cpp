#include "suggest.h"

#include <algorithm>
#include <cctype>

namespace {

std::string folded(const std::string & name) {
    std::string out = name.substr(std::min(name.find_first_not_of('-'), name.size()));
    std::transform(out.begin(), out.end(), out.begin(),
                   [](unsigned char c) { return c == '_' ? '-' : static_cast<char>(std::tolower(c)); });
    return out;
}

// Insertions, deletions, replacements, and swaps of neighbours that make one text the other.
size_t edit_distance(const std::string & a, const std::string & b) {
    std::vector<size_t> before_last, last(b.size() + 1), row(b.size() + 1);
    for (size_t j = 0; j <= b.size(); j++) {
        last[j] = j;
    }
    for (size_t i = 1; i <= a.size(); i++) {
        row[0] = i;
        for (size_t j = 1; j <= b.size(); j++) {
            const bool same = a[i - 1] == b[j - 1];
            row[j]          = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                row[j] = std::min(row[j], before_last[j - 2] + 1);
            }
        }
        before_last = last;
        last        = row;
    }
    return last[b.size()];
}

// How many edits still look like a typing mistake.
size_t edits_max(size_t length) { return length < 3 ? 0 : std::clamp<size_t>(length / 3, 1, 3); }

} // namespace

std::string closest(const std::string & typed, const std::vector<std::string> & known) {
    constexpr size_t  beginning_min = 3; // letters from which on the beginning of a name stands for it
    const std::string text          = folded(typed);
    std::string       best;
    size_t            best_distance = edits_max(text.size()) + 1;
    for (const std::string & name : known) {
        const std::string candidate = folded(name);
        size_t            distance  = edit_distance(text, candidate);
        if (text.size() >= beginning_min && candidate.rfind(text, 0) == 0) {
            distance = std::min<size_t>(distance, 1);
        }
        if (!text.empty() && distance < best_distance) {
            best          = name;
            best_distance = distance;
        }
    }
    return best;
}

std::string did_you_mean(const std::string & typed, const std::vector<std::string> & known) {
    const std::string name = closest(typed, known);
    return name.empty() ? "" : "; did you mean " + name + "?";
}
