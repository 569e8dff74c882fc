// Decoding methods with random settings on random tiny models: a run writes nothing but the canvas, leaves the prompt as it was, ends within
// its bound, and leaves no mask where its rule does not say so. BUOY_FUZZ_COUNT and BUOY_FUZZ_SEED search further.

#include "buoy/error.h"
#include "buoy/generate.h"
#include "buoy/step-count.h"
#include "support/fuzz.h"
#include "support/random-context.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

using namespace buoy;
using namespace buoy::test;

namespace {

double share(Random & random) { return static_cast<double>(below(random, 101)) / 100.0; }

std::string number(Random & random, uint64_t low, uint64_t high) {
    return std::to_string(low + below(random, high - low + 1));
}

// Confidences of untrained models are small, so thresholds are as well.
std::string threshold(Random & random) { return std::to_string(share(random) * share(random) * 0.2); }

using Settings = std::vector<std::pair<std::string, std::string>>;

Settings constants_of(const std::string & method, Random & random) {
    const auto pick = [&](std::initializer_list<const char *> names) {
        return std::string(names.begin()[below(random, names.size())]);
    };
    if (method == "localleap") {
        return {{"threshold", threshold(random)},
                {"relaxed_threshold", threshold(random)},
                {"radius", number(random, 0, 6)}};
    }
    if (method == "klass") {
        return {{"conf_threshold", threshold(random)},
                {"kl_threshold", std::to_string(share(random))},
                {"kl_history_length", number(random, 1, 4)},
                {"unmask_strategy", pick({"all", "max_conf", "min_kl"})},
                {"steps", number(random, 0, 30)}};
    }
    if (method == "dawn") {
        return {{"attn_layers", pick({"0", "1", "0,1"})}, {"tau_conf", threshold(random)},
                {"tau_low", threshold(random)},           {"tau_induce", threshold(random)},
                {"tau_edge", threshold(random)},          {"tau_sink", threshold(random)}};
    }
    if (method == "wino") {
        return {{"threshold", threshold(random)},
                {"threshold_back", std::to_string(share(random))},
                {"accept_ratio", std::to_string(share(random))},
                {"accept_min", number(random, 1, 8)},
                {"accept_max", number(random, 1, 20)},
                {"last_accept_init", number(random, 1, 30)}};
    }
    if (method == "daedal") {
        return {{"initial_gen_length", number(random, 1, 20)},   {"high_conf_threshold", threshold(random)},
                {"low_conf_threshold", threshold(random)},       {"expansion_factor", number(random, 1, 9)},
                {"eos_confidence_threshold", threshold(random)}, {"expand_eos_confidence_threshold", threshold(random)},
                {"eos_check_tokens", number(random, 1, 12)},     {"eos_id", number(random, 0, 250)}};
    }
    if (method == "elastic") {
        return {{"window_length", number(random, 1, 12)},   {"gamma", std::to_string(share(random) * 2.0 - 1.0)},
                {"track_num", number(random, 1, 4)},        {"tokens_per_iter", number(random, 1, 4)},
                {"block_caching", pick({"true", "false"})}, {"threshold", pick({"none", "0.01", "0.05"})}};
    }
    if (method == "plus-one") {
        return {{"threshold", threshold(random)}};
    }
    if (method == "anchor") {
        return {{"tau_stale", std::to_string(share(random) * share(random))},
                {"threshold", pick({"none", "0.01", "0.05"})}};
    }
    Settings both = {{"sigma", pick({"none", "2", "10"})}, {"threshold", pick({"none", "0.01", "0.05"})}};
    if (below(random, 2) == 0) {
        both.emplace_back("num_transfer_tokens", number(random, 1, 4));
    }
    const Settings own = method == "d2" ? Settings{{"rollout_p", std::to_string(share(random))},
                                                   {"current_k", number(random, 1, 10)},
                                                   {"cache_sigma", number(random, 1, 12)},
                                                   {"inflate_w", number(random, 0, 5)},
                                                   {"code_as_is", pick({"true", "false"})}}
                                        : Settings{{"kp", number(random, 1, 6)},
                                                   {"kr", number(random, 1, 6)},
                                                   {"rho", std::to_string(share(random))}};
    both.insert(both.end(), own.begin(), own.end());
    return both;
}

GenerateParams params_of(const std::string & method, Random & random, std::string & told) {
    GenerateParams params;
    params.n_predict = static_cast<int32_t>(1 + below(random, 24));
    params.seed      = random();
    if (below(random, 3) == 0) {
        params.temperature = 0.8f;
    }
    const std::map<std::string, DiffusionCache> caches = {{"d2", DiffusionCache::d2},
                                                          {"elastic", DiffusionCache::elastic},
                                                          {"dllm", DiffusionCache::dllm},
                                                          {"anchor", DiffusionCache::anchor}};
    if (caches.count(method) > 0) {
        params.cache = caches.at(method);
    } else if (method == "daedal") {
        params.auto_length = true;
    } else {
        params.algorithm = parse_algorithm(method);
    }
    if (method != "elastic" && below(random, 3) > 0) {
        params.block_length = static_cast<int32_t>(1 + below(random, 12));
    }
    for (const auto & [name, value] : constants_of(method, random)) {
        apply_setting(params, name, value);
        told += " " + name + "=" + value;
    }
    told += " n=" + std::to_string(params.n_predict) + " block=" + std::to_string(params.block_length);
    return params;
}

struct Tried {
    std::unique_ptr<Context> context;
    std::string              arch;
};

void try_method(Tried & model, const std::string & method, Random & random) {
    std::string          told   = model.arch + " " + method;
    const GenerateParams params = params_of(method, random, told);
    CAPTURE(told);
    const int32_t              mask = model.context->info().traits.mask_id;
    const std::vector<int32_t> prompt =
        random_tokens(1 + below(random, 9), 250, static_cast<uint32_t>(below(random, 1000)));
    const auto       n_prompt = static_cast<int32_t>(prompt.size());
    const auto       n_max    = step_count_max(model.context->info(), prompt, params);
    const Generation out      = generate(*model.context, prompt, params);

    CHECK(static_cast<int64_t>(out.steps.size()) <= n_max);
    CHECK(std::equal(prompt.begin(), prompt.end(), out.sequence.begin()));
    CHECK(static_cast<int32_t>(out.sequence.size()) <= n_prompt + params.n_predict);
    if (!params.auto_length) {
        CHECK(static_cast<int32_t>(out.sequence.size()) == n_prompt + params.n_predict);
    }
    CHECK(std::count(out.sequence.begin(), out.sequence.end(), mask) == 0);
    for (const StepReport & step : out.steps) {
        const bool inside = std::all_of(step.committed.begin(), step.committed.end(), [&](const auto & written) {
            return written.first >= n_prompt && written.first < n_prompt + params.n_predict;
        });
        CHECK(inside);
    }
}

} // namespace

TEST_CASE("methods: random settings write the canvas, and all of it") {
    Random             random(setting("BUOY_FUZZ_SEED", 22));
    std::vector<Tried> models;
    for (const char * arch : {"llada", "dream", "llada", "dream"}) {
        RandomModel model;
        model.arch          = arch;
        model.n_embd        = 32;
        model.n_layer       = 2;
        model.n_head_kv     = models.size() < 2 ? 0 : 2;
        model.seed          = 1 + models.size();
        ContextParams where = exact_params();
        where.n_ctx         = 64;
        where.n_threads     = 1;
        models.push_back({random_context(model, where), arch});
    }
    const std::vector<std::string> methods = {"localleap", "klass",   "dawn", "wino",   "daedal",
                                              "d2",        "elastic", "dllm", "anchor", "plus-one"};
    const uint64_t                 n       = setting("BUOY_FUZZ_COUNT", 400);
    for (uint64_t i = 0; i < n; i++) {
        Tried &             model  = models[below(random, models.size())];
        const std::string & method = methods[i % methods.size()];
        if (model.arch == "dream" && (method == "wino" || method == "elastic")) {
            continue; // for models that predict in place
        }
        try_method(model, method, random);
    }
}
