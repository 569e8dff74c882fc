// DAWN (arXiv 2602.06953): positions that attend to each other are not written in the same step, those that attend to what is settled
// may be written earlier.

#include "buoy/message.h"
#include "decode/rule.h"

#include <algorithm>
#include <numeric>

namespace buoy {

namespace {

constexpr size_t n_layers_last = 4; // whose attention the authors take

std::vector<int32_t> layers_of(const RuleParams & in) {
    std::vector<int32_t> layers = in.constants().list("attn_layers");
    for (int32_t il = std::max(0, in.info.n_layer - static_cast<int32_t>(n_layers_last));
         !in.constants().is_set("attn_layers") && il < in.info.n_layer; il++) {
        layers.push_back(il);
    }
    std::sort(layers.begin(), layers.end());
    layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
    if (layers.empty() || layers.back() >= in.info.n_layer) {
        fail("setting attn_layers names layer ", layers.empty() ? -1 : layers.back(), ", the model has layers 0 to ",
             in.info.n_layer - 1);
    }
    return layers;
}

class Dawn : public Rule {
public:
    explicit Dawn(const RuleParams & in) : layers_(layers_of(in)) {
        const SettingReader s = in.constants();
        conf_                 = static_cast<float>(s.number("tau_conf"));
        low_                  = static_cast<float>(s.number("tau_low"));
        induce_               = static_cast<float>(s.number("tau_induce"));
        edge_                 = s.number("tau_edge");
        sink_                 = s.number("tau_sink");
    }

    // Asks about everything up to the block's end: what is written may be an anchor.
    void prepare(const Canvas & canvas, Pass & pass) override {
        pass.asked.resize(static_cast<size_t>(pass.span.to));
        std::iota(pass.asked.begin(), pass.asked.end(), 0);
        T_ = static_cast<size_t>(canvas.end());
        attention_.assign(T_ * T_, 0.0f);
        Observer & observer = pass.observers.emplace_back();
        for (const int32_t layer : layers_) {
            observer.taps.push_back({Tap::pattern, layer, TapReduce::heads});
        }
        observer.sink = [this](const TapEvent & event) { // [1, T, T]
            for (size_t i = 0; i < attention_.size(); i++) {
                attention_[i] += event.data[i] / static_cast<float>(layers_.size());
            }
        };
    }

    std::vector<Candidate> select(const RuleInput & in) override {
        find_sinks();
        const std::vector<Candidate> all = writable(in);
        std::vector<int32_t>         anchors;
        for (const Candidate & c : in.candidates) {
            if (!in.canvas.is_masked(c.position) && c.prob >= conf_) {
                anchors.push_back(c.position);
            }
        }
        std::vector<Candidate> written, nodes;
        std::vector<int32_t>   decisive; // confident and induced: "and" is what the reference does
        const auto             is_induced = [&](const Candidate & c) {
            return c.prob >= induce_ && std::any_of(anchors.begin(), anchors.end(),
                                                                [&](int32_t anchor) { return attends(c.position, anchor); });
        };
        for (const Candidate & c : all) {
            const bool confident = c.prob >= conf_, induced = is_induced(c);
            if (confident || induced) {
                written.push_back(c);
            } else if (c.prob >= low_) {
                nodes.push_back(c);
            }
            if (confident && induced) {
                decisive.push_back(c.position);
            }
        }
        std::erase_if(nodes, [&](const Candidate & c) {
            return std::any_of(decisive.begin(), decisive.end(), [&](int32_t key) { return attends(c.position, key); });
        });
        take_independent(std::move(nodes), written);
        if (written.empty()) {
            written.push_back(most_confident(all));
        }
        return written;
    }

    std::vector<Measure> measured() const override { return {{"column_mean", column_mean_}}; }

private:
    void find_sinks() {
        std::vector<double> sums(T_);
        for (size_t query = 0; query < T_; query++) {
            for (size_t key = 0; key < T_; key++) {
                sums[key] += static_cast<double>(attention_[query * T_ + key]);
            }
        }
        column_mean_.clear();
        for (const double sum : sums) {
            column_mean_.push_back(static_cast<float>(sum / static_cast<double>(T_)));
        }
    }

    // An edge of the graph; what everybody attends to says nothing.
    bool attends(int32_t query, int32_t key) const {
        const auto q = static_cast<size_t>(query), k = static_cast<size_t>(key);
        return q != k && static_cast<double>(column_mean_[k]) <= sink_ &&
               static_cast<double>(attention_[q * T_ + k]) >= edge_;
    }

    // The most confident first, and none that is joined to one taken.
    void take_independent(std::vector<Candidate> nodes, std::vector<Candidate> & written) const {
        const size_t           n_nodes = nodes.size();
        std::vector<Candidate> taken;
        for (const Candidate & c : most_confident(std::move(nodes), n_nodes)) {
            const bool joined = std::any_of(taken.begin(), taken.end(), [&](const Candidate & other) {
                return attends(c.position, other.position) || attends(other.position, c.position);
            });
            if (!joined) {
                taken.push_back(c);
            }
        }
        written.insert(written.end(), taken.begin(), taken.end());
    }

    const std::vector<int32_t> layers_;
    float                      conf_ = 0.0f, low_ = 0.0f, induce_ = 0.0f;
    double                     edge_ = 0.0, sink_ = 0.0;

    size_t             T_ = 0;
    std::vector<float> attention_; // [T, T] of this step, the mean over heads and layers
    std::vector<float> column_mean_;
};

} // namespace

std::unique_ptr<Rule> make_dawn(const RuleParams & in) {
    if (in.constants().is_on("position0_overwrite")) {
        fail("setting position0_overwrite is a bug of the reference, which overwrites the prompt's first token; only "
             "false is supported");
    }
    return std::make_unique<Dawn>(in);
}

} // namespace buoy
