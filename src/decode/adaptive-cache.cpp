// dLLM-Cache, and how the d2Cache repository, which has a port of it, chooses tokens.

#include "decode/adaptive-cache.h"

#include <algorithm>
#include <cmath>

namespace buoy {

namespace {

// Prompt and answer are computed at intervals of their own; in between a share of the answer, that whose values have drifted most.
class DllmCache : public AdaptiveCache {
public:
    DllmCache(const DecodeSettings & settings, const GenerateParams & params, const Canvas & canvas) {
        const SettingReader s(params, settings.shift);
        const double        rho = s.number("rho");
        prompt_interval_        = s.whole("kp");
        answer_interval_        = s.whole("kr");
        refresh_.n_prompt       = canvas.first();
        refresh_.values         = rho > 0.0;
        refresh_.n_drifted      = static_cast<int32_t>(static_cast<double>(canvas.end() - canvas.first()) * rho);
    }

    void prepare(const Canvas &, Pass & pass) override {
        refresh_.prompt = n_passes_ % prompt_interval_ == 0;
        refresh_.answer = n_passes_ % answer_interval_ == 0;
        pass.refresh    = refresh_;
        n_passes_++;
    }

private:
    int32_t        prompt_interval_ = 1, answer_interval_ = 1;
    int32_t        n_passes_ = 0;
    PartialRefresh refresh_;
};

class Certainty : public Rule {
public:
    explicit Certainty(const RuleParams & in)
        : sigma_(in.constants().optional("sigma")), threshold_(in.params.threshold) {}

    std::vector<Candidate> select(const RuleInput & in) override {
        std::vector<Candidate> all = writable(in);
        if (sigma_) {
            const int32_t             first   = in.canvas.first();
            const std::vector<double> density = certainty_density(in.canvas, first, *sigma_);
            for (Candidate & c : all) {
                c.prob =
                    static_cast<float>(static_cast<double>(c.prob) * density[static_cast<size_t>(c.position - first)]);
            }
        }
        auto n = static_cast<size_t>(in.pass.due);
        if (threshold_) {
            n = std::max(n, static_cast<size_t>(std::count_if(all.begin(), all.end(), [this](const Candidate & c) {
                             return c.prob >= *threshold_;
                         })));
        }
        return most_confident(std::move(all), n);
    }

private:
    const std::optional<double> sigma_;
    const std::optional<float>  threshold_;
};

} // namespace

std::vector<double> certainty_density(const Canvas & canvas, int32_t first, double sigma) {
    const int32_t n     = canvas.end() - first;
    const auto    reach = static_cast<int32_t>(std::min(40.0 * sigma + 1.0, 3.0 * n)); // beyond it the weight is 0
    std::vector<double> weight;
    for (int32_t d = 0; d <= reach; d++) {
        weight.push_back(std::exp(-static_cast<double>(d) * d / (2.0 * sigma * sigma)));
    }
    double total = 0.0; // of distances −3n … 3n − 1
    for (int32_t d = -3 * n; d < 3 * n; d++) {
        total += std::abs(d) <= reach ? weight[static_cast<size_t>(std::abs(d))] : 0.0;
    }
    std::vector<double> density;
    for (int32_t i = 0; i < n; i++) {
        double sum = 0.0;
        for (int32_t j = std::max(-n, i - reach); j <= std::min(2 * n - 1, i + reach); j++) {
            const bool known = j < 0 || !canvas.is_masked(first + std::min(j, n - 1));
            sum += known ? weight[static_cast<size_t>(std::abs(i - j))] : 0.0;
        }
        density.push_back(sum / total);
    }
    return density;
}

std::unique_ptr<Rule> make_certainty(const RuleParams & in) { return std::make_unique<Certainty>(in); }

std::unique_ptr<AdaptiveCache> make_adaptive(const DecodeSettings & settings, const GenerateParams & params,
                                             const Canvas & canvas) {
    switch (settings.cache) {
        case DiffusionCache::d2: return make_d2(settings, params, canvas);
        case DiffusionCache::anchor: return make_anchor(settings, params, canvas);
        case DiffusionCache::dllm: return std::make_unique<DllmCache>(settings, params, canvas);
        default: return nullptr;
    }
}

} // namespace buoy
