// What decoding promises for any settings, on random models; and the mistakes of llama.cpp's llama-diffusion-cli that ours must
// not make (FACTS 4), each with a check that its behaviour would fail.

#include "buoy/error.h"
#include "buoy/generate.h"
#include "decode/selection.h"
#include "decode/token-choice.h"
#include "support/oracle.h"
#include "support/random-context.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>

using namespace buoy;
using namespace buoy::test;

namespace {

constexpr int32_t mask_id = 260; // of a random model

RandomModel model_of(const std::string & arch) {
    RandomModel model;
    model.arch    = arch;
    model.n_layer = 2;
    model.n_embd  = 32;
    model.n_head  = 2;
    return model;
}

std::unique_ptr<Context> engine_of(const RandomModel & model, const GenerateParams & params = {},
                                   int32_t n_threads = 1) {
    ContextParams context = exact_params();
    context.n_sequences   = sequence_count(params);
    context.n_threads     = n_threads;
    context.n_ctx         = 256;
    return random_context(model, context);
}

Generation run(const RandomModel & model, const std::vector<int32_t> & prompt, const GenerateParams & params,
               int32_t n_threads = 1) {
    return generate(*engine_of(model, params, n_threads), prompt, params);
}

GenerateParams random_settings(std::mt19937 & random, bool shift) {
    const auto     below = [&](uint32_t n) { return static_cast<int32_t>(random() % n); };
    GenerateParams params;
    params.n_predict                        = 1 + below(40);
    params.seed                             = random();
    params.temperature                      = below(2) == 0 ? 0.0f : 0.3f + 0.1f * static_cast<float>(below(10));
    params.top_k                            = below(3) == 0 ? 1 + below(400) : 0;
    params.top_p                            = below(3) == 0 ? 0.1f + 0.1f * static_cast<float>(below(9)) : 1.0f;
    params.min_p                            = below(4) == 0 ? 0.1f : 0.0f;
    params.steps                            = below(2) == 0 ? 1 + below(60) : 0;
    params.block_length                     = below(2) == 0 ? 1 + below(24) : 0;
    params.alg_temp                         = below(4) == 0 ? 0.5f : 0.0f;
    params.cfg_scale                        = below(4) == 0 ? 1.5f : 0.0f;
    const std::vector<Algorithm> algorithms = {Algorithm::entropy,    Algorithm::margin, Algorithm::random,
                                               Algorithm::confidence, Algorithm::pc,     Algorithm::pc_linear,
                                               Algorithm::eb};
    params.algorithm                        = algorithms[static_cast<size_t>(below(7))];
    params.pc_table.n_total                 = 1000;
    params.pc_table.counts                  = {{3, 500}, {65, 100}};
    params.cache                            = static_cast<DiffusionCache>(below(3));
    params.cache_refresh                    = below(2) == 0 ? 1 + below(4) : 0;
    if (params.algorithm != Algorithm::eb && below(3) == 0) {
        params.threshold = 0.02f * static_cast<float>(below(10));
    } else if (params.algorithm != Algorithm::eb && below(4) == 0) {
        params.factor = 0.5f * static_cast<float>(1 + below(4));
    }
    if (shift && below(2) == 0 && (params.block_length == 0 || params.cache != DiffusionCache::none)) {
        params.eps = 0.001f * static_cast<float>(1 + below(900));
    }
    const bool only_blocks = // rules that timesteps do not know
        params.factor || params.algorithm == Algorithm::eb || params.algorithm == Algorithm::pc_linear;
    if (shift && only_blocks) {
        params.eps.reset();
        params.cache = DiffusionCache::none;
    }
    return params;
}

} // namespace

TEST_CASE("any settings: masks filled, prompt untouched, each position written once, the mask never") {
    std::mt19937 random(7);
    for (int i = 0; i < 120; i++) {
        CAPTURE(i);
        const std::string    arch   = i % 2 == 0 ? "llada" : "dream";
        const GenerateParams params = random_settings(random, arch == "dream");
        const auto       prompt = random_tokens(random() % 20 + (i % 5 == 0 ? 0 : 1), 256, static_cast<uint32_t>(i));
        const Generation out    = run(model_of(arch), prompt, params);

        CHECK(out.sequence.size() == prompt.size() + static_cast<size_t>(params.n_predict));
        CHECK(std::equal(prompt.begin(), prompt.end(), out.sequence.begin()));
        CHECK(std::count(out.sequence.begin(), out.sequence.end(), mask_id) == 0);
        CHECK(out.tokens ==
              std::vector<int32_t>(out.sequence.begin() + static_cast<ptrdiff_t>(prompt.size()), out.sequence.end()));
        std::set<int32_t> written;
        for (const StepReport & step : out.steps) {
            for (const auto & [position, id] : step.committed) {
                CHECK(written.insert(position).second);
                CHECK(out.sequence[static_cast<size_t>(position)] == id);
            }
        }
        CHECK(written.size() == static_cast<size_t>(params.n_predict));
        CHECK(out.n_forward <= static_cast<int64_t>(out.steps.size()));
    }
}

TEST_CASE("the uniform schedule writes what it says, also where nothing divides") {
    GenerateParams params;
    params.n_predict        = 23;
    params.block_length     = 10; // blocks of 10, 10 and 3
    params.steps            = 8;  // 3, 3 and 2 steps
    const Generation    out = run(model_of("llada"), {1, 2, 3}, params);
    std::vector<size_t> counts;
    for (const StepReport & step : out.steps) {
        counts.push_back(step.committed.size());
        for (const auto & entry : step.committed) {
            CHECK((entry.first - 3) / 10 == step.block); // nothing outside of the block
        }
    }
    CHECK(counts == std::vector<size_t>{4, 3, 3, 4, 3, 3, 2, 1});

    params.block_length   = 0;
    params.steps          = 40; // more steps than tokens: the rest has nothing to do, and computes nothing
    const Generation slow = run(model_of("llada"), {1, 2, 3}, params);
    CHECK(slow.steps.size() == 40);
    CHECK(slow.n_forward == 23);
}

TEST_CASE("left open, a step writes one token, whatever the blocks and gaps") {
    std::vector<int32_t> text = random_tokens(30, 256);
    for (size_t gap : {4u, 5u, 6u, 27u}) {
        text[gap] = mask_id;
    }
    GenerateParams params;
    params.n_predict    = 10;
    params.block_length = 4;
    for (const auto & prompt : {std::vector<int32_t>{1, 2, 3}, text}) {
        const Generation out = run(model_of("llada"), prompt, params);
        for (const StepReport & step : out.steps) {
            CHECK(step.committed.size() == 1);
        }
    }
}

TEST_CASE("an end token in a gap of the prompt ends nothing, one in the answer does") {
    GenerateParams params;
    params.n_predict     = 4;
    params.block_length  = 2;
    params.logit_bias    = {{259, 1000.0f}};
    params.end_ids       = {259};
    const Generation out = run(model_of("llada"), {1, mask_id, mask_id, 2, mask_id, 3}, params);
    CHECK(out.ended);
    CHECK(out.tokens == std::vector<int32_t>{259, 259, 259});
    CHECK(out.sequence[4] == 259);
}

TEST_CASE("a threshold means the same for timesteps when no steps are given") {
    GenerateParams params;
    params.n_predict = 12;
    params.threshold = 0.0f;
    CHECK(run(model_of("dream"), {1, 2, 3}, params).n_forward == 1);
    params.cache  = DiffusionCache::dual;
    params.factor = 1.0f;
    params.threshold.reset();
    CHECK_THROWS_AS(run(model_of("dream"), {1, 2, 3}, params), Error);
}

TEST_CASE("the same seed gives the same text, whatever the number of threads") {
    std::mt19937 random(3);
    for (int i = 0; i < 8; i++) {
        GenerateParams params = random_settings(random, false);
        params.temperature    = 1.0f;
        params.n_predict      = 24;
        const auto one        = run(model_of("llada"), {5, 6, 7}, params, 1).sequence;
        CHECK(run(model_of("llada"), {5, 6, 7}, params, 1).sequence == one);
        CHECK(run(model_of("llada"), {5, 6, 7}, params, 2).sequence == one);
        params.seed++;
        CHECK(run(model_of("llada"), {5, 6, 7}, params, 1).sequence != one);
    }
    GenerateParams ar;
    ar.temperature = 1.0f;
    ar.seed        = 11;
    const auto one = run(model_of("llama"), {5, 6, 7}, ar, 1).sequence;
    CHECK(run(model_of("llama"), {5, 6, 7}, ar, 2).sequence == one);
    ar.seed++;
    CHECK(run(model_of("llama"), {5, 6, 7}, ar, 1).sequence != one);
}

TEST_CASE("infill keeps the given text and fills the gaps") {
    std::vector<int32_t> text = random_tokens(30, 256);
    for (size_t gap : {4u, 5u, 6u, 20u, 29u}) {
        text[gap] = mask_id;
    }
    GenerateParams params;
    params.n_predict = 0;
    for (int32_t block_length : {0, 1, 7}) {
        for (DiffusionCache cache : {DiffusionCache::none, DiffusionCache::prefix, DiffusionCache::dual}) {
            params.block_length  = block_length;
            params.cache         = cache;
            const Generation out = run(model_of("llada"), text, params);
            CHECK(std::count(out.sequence.begin(), out.sequence.end(), mask_id) == 0);
            CHECK(out.tokens.size() == 5);
            for (size_t i = 0; i < text.size(); i++) {
                CHECK((text[i] == mask_id || out.sequence[i] == text[i]));
            }
        }
    }
    CHECK_THROWS_WITH_AS(run(model_of("llada"), {1, 2}, params),
                         "there is nothing to write: set `n_predict`, or give a prompt with masks to fill", Error);
}

TEST_CASE("with a refresh in every step a cache is exact") {
    GenerateParams params;
    params.n_predict    = 24;
    params.block_length = 8;
    const auto exact    = run(model_of("llada"), {1, 2, 3, 4}, params).sequence;
    for (DiffusionCache cache : {DiffusionCache::prefix, DiffusionCache::dual}) {
        params.cache         = cache;
        params.cache_refresh = 1;
        CHECK(run(model_of("llada"), {1, 2, 3, 4}, params).sequence == exact);
    }
}

TEST_CASE("a callback can stop, and what is there is kept") {
    GenerateParams params;
    params.n_predict = 20;
    params.on_step   = [](const StepReport & step, const std::vector<int32_t> &) { return step.step < 4; };
    for (const char * arch : {"llada", "dream", "llama"}) {
        const Generation out = run(model_of(arch), {1, 2, 3}, params);
        CHECK(out.stopped);
        CHECK(out.steps.size() == 5);
        CHECK(out.tokens.size() <= 6);
    }
}

TEST_CASE("upstream 1: entropy writes the surest position first") {
    std::vector<Candidate> candidates(3);
    for (int32_t i = 0; i < 3; i++) {
        candidates[static_cast<size_t>(i)].position = i;
    }
    candidates[0].entropy = 2.0f;
    candidates[1].entropy = 0.1f;
    candidates[2].entropy = 1.0f;
    rank(candidates, Algorithm::entropy, {}, {0, 3}, RandomSource(0), 0);
    CHECK(candidates[0].position == 1);
    CHECK(candidates[2].position == 0);
}

TEST_CASE("upstream 2: temperature 0 is argmax, for every seed") {
    GenerateParams params;
    params.n_predict = 16;
    const auto first = run(model_of("llada"), {1, 2}, params).sequence;
    for (params.seed = 1; params.seed < 4; params.seed++) {
        CHECK(run(model_of("llada"), {1, 2}, params).sequence == first);
    }
    // and it is the argmax: the first token written is the surest of the masked canvas
    const auto           context = engine_of(model_of("llada"));
    std::vector<int32_t> canvas  = {1, 2};
    canvas.resize(18, mask_id);
    const auto logits = context->forward(whole_request(canvas)).logits;
    const auto step   = run(model_of("llada"), {1, 2}, params).steps[0].committed[0];
    CHECK(argmax_rows(logits, 320)[static_cast<size_t>(step.first)] == step.second);
}

TEST_CASE("upstream 3: guidance and the algorithm's temperature have an effect") {
    GenerateParams params;
    params.n_predict = 24;
    const auto plain = run(model_of("llada"), {1, 2, 3, 4, 5}, params);
    params.cfg_scale = 2.0f;
    CHECK(run(model_of("llada"), {1, 2, 3, 4, 5}, params).sequence != plain.sequence);
    params.cfg_scale = 0.0f;
    params.alg_temp  = 1.0f;
    const auto drawn = run(model_of("llada"), {1, 2, 3, 4, 5}, params);
    CHECK(drawn.steps[0].committed[0].first != plain.steps[0].committed[0].first);
}

TEST_CASE("upstream 4: every row gets its own noise, and confidence is the full vocabulary's") {
    GenerateParams params;
    params.temperature = 1.0f;
    params.top_k       = 3;
    TokenChoice              choice(params, mask_id, ConfidenceOf::model);
    const std::vector<float> flat(320, 0.0f);
    std::set<int32_t>        ids;
    for (int32_t position = 0; position < 64; position++) {
        const Candidate c = choice.choose(flat.data(), 320, 0, position);
        ids.insert(c.id);
        CHECK(c.prob == doctest::Approx(1.0 / 320)); // not 1/3, which top-k would make of it
    }
    CHECK(ids.size() == 3);
}

TEST_CASE("upstream 5: steps are spent on the answer, not on the prompt's blocks") {
    GenerateParams params;
    params.n_predict     = 16;
    params.block_length  = 8;
    params.steps         = 16;
    const Generation out = run(model_of("llada"), random_tokens(100, 256), params);
    CHECK(out.n_forward == 16);
    CHECK(out.steps.front().committed.size() == 1);
    CHECK(out.steps.back().committed.size() == 1);
}

TEST_CASE("upstream 6: only masked rows of the block reach the head, the mask is never sampled, an end token ends it") {
    GenerateParams params;
    params.n_predict    = 16;
    params.block_length = 8;
    const auto context  = engine_of(model_of("llada"));
    generate(*context, random_tokens(50, 256), params);
    CHECK(context->stats().n_head_rows == 2 * (8 + 7 + 6 + 5 + 4 + 3 + 2 + 1));

    // a bias that makes the mask the best token of every row
    params.logit_bias[mask_id] = 1000.0f;
    const Generation biased    = generate(*context, {1, 2}, params);
    CHECK(std::count(biased.sequence.begin(), biased.sequence.end(), mask_id) == 0);

    // whatever is written first in the first block, when declared an end token, saves the other block
    params.logit_bias    = {{259, 1000.0f}};
    params.end_ids       = {259};
    const Generation out = generate(*context, {1, 2}, params);
    CHECK(out.ended);
    CHECK(out.tokens.empty());
    CHECK(out.steps.back().block == 0);
}

TEST_CASE("upstream 7: wrong settings are errors with one line") {
    const auto rejects = [](const std::string & message, const std::function<void(GenerateParams &)> & change) {
        GenerateParams params;
        params.n_predict = 8;
        change(params);
        CHECK_THROWS_WITH_AS(run(model_of("llada"), {1, 2}, params), message.c_str(), Error);
    };
    rejects("the number of tokens to generate is -2, expected -1 (what fits), 0 or more",
            [](auto & p) { p.n_predict = -2; });
    rejects("the number of diffusion steps is -1, expected 0 to 1e+06", [](auto & p) { p.steps = -1; });
    rejects("the temperature is nan, expected 0 to 1000", [](auto & p) { p.temperature = NAN; });
    rejects("the temperature is -0.5, expected 0 to 1000", [](auto & p) { p.temperature = -0.5f; });
    rejects("top-p is 0, expected 1e-09 to 1", [](auto & p) { p.top_p = 0.0f; });
    rejects("top-p is 2, expected 1e-09 to 1", [](auto & p) { p.top_p = 2.0f; });
    rejects("the threshold is 1.5, expected 0 to 1", [](auto & p) { p.threshold = 1.5f; });
    rejects("threshold, factor and algorithm eb each decide how many positions a step writes; set only one of them",
            [](auto & p) { p.threshold = p.factor = 0.5f; });
    rejects("algorithm pc needs a table of token frequencies", [](auto & p) { p.algorithm = Algorithm::pc; });
    rejects("algorithm origin follows timesteps, which llada uses only if eps is set",
            [](auto & p) { p.algorithm = Algorithm::origin; });
    rejects("timesteps (eps) can be combined with a cache only for shifted models, and llada is not one", [](auto & p) {
        p.eps   = 0.1f;
        p.cache = DiffusionCache::dual;
    });
    rejects("the logit bias of token 5 is inf, expected a number or -inf",
            [](auto & p) { p.logit_bias[5] = INFINITY; });
    rejects("the logit bias names token 320 (1), the model has 320 tokens", [](auto & p) { p.logit_bias[320] = 1.0f; });
    rejects("prompt (2) and answer (255) need 257 positions, the context has 256; use a larger `n_ctx` or a smaller "
            "`n_predict`",
            [](auto & p) { p.n_predict = 255; });
    CHECK_THROWS_WITH_AS(run(model_of("llama"), {}, {}),
                         "the prompt is empty, and an autoregressive model needs at least one token to continue",
                         Error);

    GenerateParams many; // larger than the vocabulary is the same as all
    many.n_predict   = 8;
    many.temperature = 1.0f;
    const auto all   = run(model_of("llada"), {1, 2}, many).sequence;
    many.top_k       = 100000;
    CHECK(run(model_of("llada"), {1, 2}, many).sequence == all);
}

TEST_CASE("upstream 8: a cache computes less, a threshold needs fewer passes") {
    GenerateParams params;
    params.n_predict    = 32;
    params.block_length = 8;
    const auto rows     = [&](DiffusionCache cache) {
        params.cache       = cache;
        const auto context = engine_of(model_of("llada"));
        const auto out     = generate(*context, random_tokens(40, 256), params);
        return std::make_pair(out.n_forward, context->stats().n_tokens);
    };
    const auto none = rows(DiffusionCache::none), prefix = rows(DiffusionCache::prefix),
               dual = rows(DiffusionCache::dual);
    CHECK(none == std::make_pair(int64_t{32}, int64_t{32 * 72}));
    CHECK(prefix == std::make_pair(int64_t{32}, int64_t{4 * 72 + 7 * (32 + 24 + 16 + 8)}));
    CHECK(dual == std::make_pair(int64_t{32}, int64_t{4 * 72 + 28 * 8}));

    params.cache     = DiffusionCache::none;
    params.threshold = 0.0f; // everything passes: one pass a block
    CHECK(run(model_of("llada"), random_tokens(40, 256), params).n_forward == 4);
}

TEST_CASE("logits that are no numbers end with an error") {
    TokenChoice              choice({}, mask_id, ConfidenceOf::model);
    const std::vector<float> nan(320, NAN), empty(320, -INFINITY);
    CHECK_THROWS_WITH_AS(choice.choose(nan.data(), 320, 0, 0), "the model's output is not a number", Error);
    CHECK_THROWS_WITH_AS(choice.choose(empty.data(), 320, 0, 0), "the model's output is not finite", Error);
    RowSummary row;
    row.prob = NAN;
    CHECK_THROWS_WITH_AS(choice.choose(row), "the model's output is not a number", Error);
}

TEST_CASE("top-k, top-p and min-p keep what they say") {
    std::vector<float> logits(2000);
    for (size_t i = 0; i < logits.size(); i++) {
        logits[i] =
            -0.01f * static_cast<float>((i * 7919) % 2000); // a shuffled slope: rank r has probability ~ exp(-r / 100)
    }
    const auto drawn = [&](const std::function<void(GenerateParams &)> & change) {
        GenerateParams params;
        params.temperature = 1.0f;
        change(params);
        TokenChoice       choice(params, -1, ConfidenceOf::sampling);
        std::set<int32_t> ranks;
        for (int32_t i = 0; i < 3000; i++) {
            ranks.insert(choice.choose(logits.data(), 2000, 0, i).id * 7919 % 2000);
        }
        return ranks;
    };
    const auto top_k = drawn([](auto & p) { p.top_k = 5; });
    CHECK(top_k == std::set<int32_t>{0, 1, 2, 3, 4});
    // 1 − exp(−r / 100) reaches 0.5 at r = 69.3, and the token that crosses the line stays
    const auto top_p = drawn([](auto & p) { p.top_p = 0.5f; });
    CHECK(*top_p.rbegin() >= 68);
    CHECK(*top_p.rbegin() <= 70);
    // exp(−r / 100) >= 0.2 up to r = 160
    const auto min_p = drawn([](auto & p) { p.min_p = 0.2f; });
    CHECK(*min_p.rbegin() >= 157);
    CHECK(*min_p.rbegin() <= 160);
    const auto both = drawn([](auto & p) {
        p.top_k = 100;
        p.top_p = 0.5f;
        p.min_p = 0.9f; // up to r = 10
    });
    CHECK(*both.rbegin() == 10);
}

TEST_CASE("sampling follows the distribution") {
    GenerateParams params;
    params.temperature = 0.7f;
    params.seed        = 5;
    std::vector<float> logits(8, -INFINITY);
    logits[1] = 1.0f;
    logits[2] = 0.0f;
    logits[5] = -1.0f;
    double z  = 0.0;
    for (float l : {1.0f, 0.0f, -1.0f}) {
        z += std::exp(static_cast<double>(l) / 0.7);
    }
    constexpr int n = 20000;
    for (ConfidenceOf kind : {ConfidenceOf::model, ConfidenceOf::sampling}) {
        TokenChoice        choice(params, 7, kind);
        std::map<int, int> counts;
        for (int32_t i = 0; i < n; i++) {
            counts[choice.choose(logits.data(), 8, i / 100, i % 100).id]++;
        }
        for (int id : {1, 2, 5}) {
            const double p = std::exp(static_cast<double>(logits[static_cast<size_t>(id)]) / 0.7) / z;
            // five standard deviations of a binomial
            CHECK(std::abs(counts[id] / static_cast<double>(n) - p) <= 5.0 * std::sqrt(p * (1.0 - p) / n));
        }
        CHECK(counts[1] + counts[2] + counts[5] == n);
    }
}

TEST_CASE("a large vocabulary is sampled like a small one") {
    constexpr int32_t  n_vocab = 1000, n = 20000;
    std::vector<float> logits(n_vocab);
    double             z = 0.0;
    for (int32_t i = 0; i < n_vocab; i++) {
        logits[static_cast<size_t>(i)] =
            std::sin(static_cast<float>(i) * 0.37f) * 2.0f - static_cast<float>(i) * 0.002f;
        z += i == 3 ? 0.0 : std::exp(static_cast<double>(logits[static_cast<size_t>(i)]) / 0.7);
    }
    GenerateParams params;
    params.temperature = 0.7f;
    TokenChoice plain(params, 3, ConfidenceOf::model);
    params.logit_bias = {{5, 0.0f}}; // changes nothing, and takes the general way
    TokenChoice general(params, 3, ConfidenceOf::model);

    std::vector<int> counts(n_vocab, 0);
    int              n_other = 0;
    for (int32_t i = 0; i < n; i++) {
        const Candidate a = plain.choose(logits.data(), n_vocab, i / 100, i % 100);
        counts[static_cast<size_t>(a.id)]++;
        if (i % 20 == 0) {
            const Candidate b = general.choose(logits.data(), n_vocab, i / 100, i % 100);
            n_other += a.id != b.id ? 1 : 0;
            if (a.id == b.id) {
                CHECK(a.prob == doctest::Approx(b.prob).epsilon(1e-5));
            }
            CHECK(a.margin == doctest::Approx(b.margin).epsilon(1e-4));
            CHECK(a.entropy == doctest::Approx(b.entropy).epsilon(1e-5));
        }
    }
    CHECK(n_other <= 2); // rounding may decide a race that is nearly a tie
    CHECK(counts[3] == 0);
    double chi_squared = 0.0;
    for (int32_t first = 0; first < n_vocab; first += 25) { // 40 bins that cross the groups' borders
        double p = 0.0, count = 0.0;
        for (int32_t i = first; i < first + 25; i++) {
            p += i == 3 ? 0.0 : std::exp(static_cast<double>(logits[static_cast<size_t>(i)]) / 0.7) / z;
            count += counts[static_cast<size_t>(i)];
        }
        chi_squared += (count - n * p) * (count - n * p) / (n * p);
    }
    CHECK(chi_squared < 39 + 5 * std::sqrt(2.0 * 39)); // five standard deviations above its mean
    CHECK(chi_squared > 39 - 4 * std::sqrt(2.0 * 39));
}
