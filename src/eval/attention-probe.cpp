#include "eval/attention-probe.h"

#include "analysis/anchors.h"
#include "analysis/retrieval-score.h"
#include "analysis/rollout.h"
#include "eval/attention-span.h"
#include "eval/attention-watch.h"

#include <algorithm>
#include <cmath>

namespace buoy {

namespace {

using Json = nlohmann::ordered_json;

constexpr double recall_min = 50; // percent; answers that say less of the gold span don't tell what was copied

// As many digits as mean something, so that lines stay short.
double rounded(double value) { return std::round(value * 1e7) / 1e7; }

Json rounded(const std::vector<double> & values) {
    Json out = Json::array();
    for (const double value : values) {
        out.push_back(rounded(value));
    }
    return out;
}

class AttentionProbe : public QaProbe {
public:
    AttentionProbe(Context & context, const Vocab & vocab, const QaItem & item, const QaPrompt & prompt)
        : info_(context.info()), prompt_(prompt), span_(find_answer_span(vocab, item, prompt)),
          gold_(positions_of(prompt, "gold")), watch_(context, prompt.tokens, gold_) {
        for (const Region & region : prompt.regions) {
            if (region.name == "gold" ||
                region.name == "other") { // the flow is between BOS, question, passages and answer
                continue;
            }
            region_names_.push_back(region.name);
            const std::vector<size_t> positions = positions_of(prompt, region.name);
            regions_.emplace_back(positions.begin(), positions.end());
        }
    }

    void attach(GenerateParams & params) override { watch_.attach(params); }

    Json result(const Generation & generation, const std::string & prediction, const QaScores &) override {
        const AttentionWatch::Finished finished = watch_.finish(regions_);
        const double recall = span_.positions.empty() ? std::nan("") : analysis::rouge1_recall(span_.text, prediction);
        const auto [absorption_of, n_anchors] = absorption(finished);
        return {{"absorption", absorption_of},
                {"anchors", n_anchors},
                {"gold", gold(generation)},
                {"recall", std::isfinite(recall) ? Json(rounded(recall)) : Json()},
                {"retrieval", recall > recall_min ? retrieval(generation) : Json()},
                {"regions", region_names_},
                {"rollout", rollout(finished)}};
    }

private:
    // Percent of the attention that the anchors receive, and how many there are; of each layer.
    static std::pair<Json, Json> absorption(const AttentionWatch::Finished & finished) {
        std::vector<double> shares;
        Json                counts = Json::array();
        for (const std::vector<double> & received : finished.received) {
            const std::vector<size_t> found = analysis::find_anchors(received, analysis::AnchorRule{}).positions;
            shares.push_back(100 * analysis::share_of(received, found));
            counts.push_back(found.size());
        }
        return {rounded(shares), counts};
    }

    // Attention on the gold passage, mean over heads and over the rows that wrote the answer's tokens, each in its step.
    Json gold(const Generation & generation) const {
        const size_t        n_end = prompt_.tokens.size() + generation.tokens.size();
        std::vector<double> sums(static_cast<size_t>(info_.n_layer));
        size_t              n = 0;
        for (const AttentionWatch::Written & one : watch_.written()) {
            if (one.position >= n_end) { // the end token, and what fills the canvas behind it
                continue;
            }
            n++;
            for (size_t l = 0; l < sums.size(); l++) {
                for (const AttentionWatch::Look & look : one.looks[l]) {
                    sums[l] += look.gold / static_cast<double>(one.looks[l].size());
                }
            }
        }
        for (double & sum : sums) {
            sum /= static_cast<double>(n);
        }
        return n > 0 && !gold_.empty() ? rounded(sums) : Json();
    }

    // As analysis::retrieval_scores has it.
    Json retrieval(const Generation & generation) const {
        std::vector<std::vector<double>> scores(static_cast<size_t>(info_.n_layer),
                                                std::vector<double>(static_cast<size_t>(info_.n_head)));
        const double                     part = 1 / static_cast<double>(span_.positions.size());
        for (const AttentionWatch::Written & one : watch_.written()) {
            for (size_t l = 0; l < scores.size() && one.position < generation.sequence.size(); l++) {
                for (size_t h = 0; h < scores[l].size(); h++) {
                    const size_t most = one.looks[l][h].most;
                    if (std::binary_search(span_.positions.begin(), span_.positions.end(), most) &&
                        prompt_.tokens[most] == generation.sequence[one.position]) {
                        scores[l][h] += part;
                    }
                }
            }
        }
        Json out = Json::array();
        for (const std::vector<double> & layer : scores) {
            out.push_back(rounded(layer));
        }
        return out;
    }

    Json rollout(const AttentionWatch::Finished & finished) const {
        std::vector<analysis::SquareMatrix> layers;
        for (const std::vector<double> & sums : finished.regions) {
            layers.emplace_back(region_names_.size()).values = sums;
        }
        const analysis::SquareMatrix flow = analysis::rollout(layers);
        Json                         out  = Json::array();
        for (size_t i = 0; i < flow.n; i++) {
            const auto row = flow.values.begin() + static_cast<std::ptrdiff_t>(i * flow.n);
            out.push_back(rounded(std::vector<double>(row, row + static_cast<std::ptrdiff_t>(flow.n))));
        }
        return out;
    }

    const ModelInfo &                 info_;
    const QaPrompt &                  prompt_;
    AnswerSpan                        span_;
    std::vector<size_t>               gold_;
    std::vector<std::string>          region_names_;
    std::vector<std::vector<int32_t>> regions_;
    AttentionWatch                    watch_;
};

} // namespace

std::unique_ptr<QaProbe> make_attention_probe(Context & context, const Vocab & vocab, const QaItem & item,
                                              const QaPrompt & prompt) {
    return std::make_unique<AttentionProbe>(context, vocab, item, prompt);
}

} // namespace buoy
