#include "analysis/retrieval-score.h"

#include "analysis/meta-reader.h"
#include "analysis/token-class.h"
#include "buoy/message.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

namespace buoy::analysis {

namespace {

// What is not ASCII belongs to words.
std::map<std::string, int64_t> words_of(const std::string & text) {
    std::map<std::string, int64_t> words;
    std::string                    word;
    for (char c : text + " ") {
        const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
        if ((lower >= 'a' && lower <= 'z') || (lower >= '0' && lower <= '9') || (lower & 0x80) != 0) {
            word += lower;
        } else if (!word.empty()) {
            words[word]++;
            word.clear();
        }
    }
    return words;
}

std::vector<size_t> gold_positions(const Recording & recording, const std::string & gold) {
    std::vector<size_t> positions = region_positions(recording, gold);
    if (positions.empty()) {
        std::string names;
        for (const Region & region : recording.regions()) {
            names += (names.empty() ? "" : ", ") + region.name;
        }
        fail(printable(recording.path()), ": retrieval needs a region ", in_quotes(gold), ", the recording has ",
             names.empty() ? "none" : printable(names), " (`record.regions` when recording, `gold` to name another)");
    }
    return positions;
}

std::string text_of(const Recording & recording, const std::vector<size_t> & positions) {
    const std::vector<int32_t> & special = recording.special_ids();
    std::string                  text;
    for (size_t j : positions) {
        const int32_t id = recording.token(recording.n_steps(), j);
        text += std::binary_search(special.begin(), special.end(), id) ? " " : recording.pieces()[j];
    }
    return text;
}

// Positions that each step wrote.
std::vector<std::vector<size_t>> written_by_step(const Recording & recording) {
    std::vector<std::vector<size_t>> out(recording.n_steps());
    const std::vector<int32_t>       steps = recording.unmask_step();
    for (size_t j = 0; j < steps.size(); j++) {
        if (steps[j] >= 0 && static_cast<size_t>(steps[j]) < out.size()) {
            out[static_cast<size_t>(steps[j])].push_back(j);
        }
    }
    return out;
}

} // namespace

double rouge1_recall(const std::string & reference, const std::string & text) {
    const auto wanted = words_of(reference);
    const auto found  = words_of(text);
    int64_t    n = 0, n_found = 0;
    for (const auto & [word, count] : wanted) {
        const auto at = found.find(word);
        n += count;
        n_found += at == found.end() ? 0 : std::min(count, at->second);
    }
    return n > 0 ? 100.0 * static_cast<double>(n_found) / static_cast<double>(n)
                 : std::numeric_limits<double>::quiet_NaN();
}

double answer_recall(const Recording & recording, const std::string & gold) {
    std::vector<size_t>        answer;
    const std::vector<int32_t> steps = recording.unmask_step();
    for (size_t j = 0; j < steps.size(); j++) {
        if (steps[j] >= 0) {
            answer.push_back(j);
        }
    }
    return rouge1_recall(text_of(recording, gold_positions(recording, gold)), text_of(recording, answer));
}

std::vector<int32_t> recorded_heads(const Recording & recording) {
    const MetaReader meta(meta_of(recording), printable(recording.path()) + ": meta.json");
    if (meta_of(recording)["recorded"]["heads"].is_array()) {
        return meta.integers({"recorded", "heads"});
    }
    std::vector<int32_t> heads(meta.count({"model", "n_head"}));
    std::iota(heads.begin(), heads.end(), 0);
    return heads;
}

std::vector<std::vector<double>> retrieval_scores(const Recording & recording, const std::string & gold,
                                                  const std::vector<int32_t> & layers) {
    recording.need_reduce({TapReduce::none}, "retrieval");
    const std::vector<size_t> span    = gold_positions(recording, gold);
    const auto                written = written_by_step(recording);
    const size_t              H       = recorded_heads(recording).size();
    const double              one     = 1 / static_cast<double>(span.size());

    std::vector<std::vector<double>> scores(layers.size(), std::vector<double>(H));
    for (int32_t step : recording.steps()) {
        const std::vector<int32_t> & rows = recording.rows(step);
        const auto                   s    = static_cast<size_t>(step);
        for (size_t l = 0; l < layers.size() && !written[s].empty() && !rows.empty(); l++) {
            const Array pattern = recording.read(Tap::pattern, step, layers[l]);
            if (pattern.shape[0] != H) {
                fail(printable(recording.path()), ": step ", step, ", layer ", layers[l], ": ", pattern.shape[0],
                     " heads, expected ", H);
            }
            const size_t K = pattern.shape[2];
            for (size_t position : written[s]) {
                const int32_t row = static_cast<int32_t>(position) - (recording.shift() ? 1 : 0);
                const auto    at  = std::lower_bound(rows.begin(), rows.end(), row);
                if (at == rows.end() || *at != row) { // not recorded
                    continue;
                }
                for (size_t h = 0; h < H; h++) {
                    const float * keys =
                        pattern.values.data() + (h * rows.size() + static_cast<size_t>(at - rows.begin())) * K;
                    const auto most = static_cast<size_t>(std::max_element(keys, keys + K) - keys);
                    if (std::binary_search(span.begin(), span.end(), most) &&
                        recording.token(s, most) == recording.token(recording.n_steps(), position)) {
                        scores[l][h] += one;
                    }
                }
            }
        }
    }
    return scores;
}

} // namespace buoy::analysis
