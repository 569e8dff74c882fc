// Decoding methods beyond score and count: what they may be combined with, the shadow of WINO in the engine, a canvas that grows, and the
// frontier of all of them. Their decisions are compared with the authors' in test-replay-case.cpp.

#include "buoy/error.h"
#include "buoy/frontier.h"
#include "buoy/generate.h"
#include "buoy/record.h"
#include "buoy/recording.h"
#include "eval/story.h"
#include "support/cli.h"
#include "support/gguf-bytes.h"
#include "support/oracle.h"
#include "support/paths.h"
#include "support/random-context.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

using namespace buoy;
using namespace buoy::test;

namespace {

std::unique_ptr<Context> context_of(const char * arch, int32_t block_length = 0) {
    ContextParams params = exact_params();
    params.n_ctx         = 96;
    params.n_threads     = 1;
    return random_context(small_model(arch, block_length), params);
}

std::string refusal(const char * arch, const GenerateParams & params) {
    const auto context = context_of(arch, std::string(arch) == "sdar" ? 4 : 0);
    try {
        check_params(params, context->info());
    } catch (const Error & error) {
        return error.what();
    }
    return "";
}

GenerateParams by(Algorithm algorithm) {
    GenerateParams params;
    params.algorithm = algorithm;
    return params;
}

GenerateParams with(DiffusionCache cache) {
    GenerateParams params;
    params.cache = cache;
    return params;
}

} // namespace

TEST_CASE("methods say what they can't be combined with") {
    GenerateParams params = by(Algorithm::dawn);
    params.cache          = DiffusionCache::dual;
    CHECK(contains(refusal("llada", params), "dawn looks at every position in every pass"));
    params           = by(Algorithm::klass);
    params.threshold = 0.5f;
    CHECK(contains(refusal("llada", params), "klass each decide"));
    params          = by(Algorithm::localleap);
    params.alg_temp = 1.0f;
    CHECK(contains(refusal("llada", params), "does not rank positions"));
    CHECK(contains(refusal("dream", by(Algorithm::wino)), "predict in place"));
    CHECK(contains(refusal("sdar", by(Algorithm::dawn)), "not defined for block-causal"));
    CHECK(contains(refusal("sdar", by(Algorithm::plus_one)), "not defined for block-causal"));
    params       = by(Algorithm::klass);
    params.cache = DiffusionCache::d2;
    CHECK(contains(refusal("llada", params), "leave positions out"));
    params.cache = DiffusionCache::anchor;
    CHECK(contains(refusal("llada", params), "leave positions out"));
    params           = with(DiffusionCache::d2);
    params.cfg_scale = 1.0f;
    CHECK(contains(refusal("llada", params), "can't be combined with guidance"));
    CHECK(contains(refusal("sdar", with(DiffusionCache::dllm)), "is for full attention"));
    CHECK(contains(refusal("dream", with(DiffusionCache::elastic)), "predict in place"));
    params              = with(DiffusionCache::elastic);
    params.block_length = 8;
    CHECK(contains(refusal("llada", params), "window_length"));
    params             = by(Algorithm::dawn);
    params.auto_length = true;
    CHECK(contains(refusal("llada", params), "can't be combined with an algorithm"));
    params             = {};
    params.auto_length = true;
    CHECK(contains(refusal("sdar", params), "needs full attention"));
    params                    = by(Algorithm::localleap);
    params.settings["radius"] = {1.5};
    CHECK(contains(refusal("llada", params), "setting radius"));
    params.settings = {{"luck", {1.0}}};
    CHECK(contains(refusal("llada", params), "no method setting 'luck'"));
    const auto context = context_of("llada");
    params             = by(Algorithm::dawn);
    params.n_predict   = 8;
    params.settings    = {{"attn_layers", {7.0}}};
    CHECK_THROWS_WITH_AS(generate(*context, {1, 2}, params), doctest::Contains("the model has layers 0 to 2"), Error);
    params.settings = {{"position0_overwrite", {1.0}}};
    CHECK_THROWS_WITH_AS(generate(*context, {1, 2}, params), doctest::Contains("a bug of the reference"), Error);
}

TEST_CASE("a shadow sees the sequence, which does not see it") {
    const auto                 context = context_of("llada");
    const std::vector<int32_t> tokens  = random_tokens(20, 250);
    const auto                 plain   = context->forward(whole_request(tokens)).logits;

    ForwardRequest request = whole_request(tokens);
    request.positions      = range(0, 20);
    for (const int32_t position : {7, 8, 9}) {
        request.tokens.push_back(context->info().traits.mask_id);
        request.positions.push_back(position);
    }
    request.rows.insert(request.rows.end(), {20, 21, 22});
    request.n_shadow       = 3;
    size_t n_seen          = 0;
    observer(request).taps = {{Tap::pattern, 1, TapReduce::none}};
    observer(request).sink = [&](const TapEvent & event) {
        CHECK(event.shape[1] == 20); // of the sequence alone
        CHECK(event.shape[2] == 20);
        n_seen++;
    };
    const std::vector<float> with_shadow = context->forward(request).logits;
    const auto               V           = static_cast<std::ptrdiff_t>(context->info().n_vocab);
    CHECK(n_seen == 1);
    CHECK(max_abs_diff({with_shadow.begin(), with_shadow.begin() + 20 * V}, plain) < 1e-4);

    // a shadow does not see the token it stands for: in the first layer, and in a model of one layer at all
    RandomModel one    = small_model("llada");
    one.n_layer        = 1;
    const auto shallow = random_context(one);
    request.observers.clear();
    const auto before = shallow->forward(request).logits;
    request.tokens[8] = (request.tokens[8] + 5) % 250;
    const auto after  = shallow->forward(request).logits;
    const auto row    = [&](const std::vector<float> & all, std::ptrdiff_t at) {
        return std::vector<float>(all.begin() + at * V, all.begin() + (at + 1) * V);
    };
    CHECK(max_abs_diff(row(after, 21), row(before, 21)) < 1e-5);
    CHECK(max_abs_diff(row(after, 20), row(before, 20)) > 1e-4);

    request.kv = KvUse::store;
    CHECK_THROWS_AS(context->forward(request), Error);
}

TEST_CASE("a canvas that grows is recorded as it was") {
    TestModel where;
    where.path          = random_gguf(small_model("llada"));
    const auto    model = load_model(where.path, {});
    ContextParams sizes = exact_params();
    sizes.n_ctx         = 96;
    const auto  context = model->make_context(sizes);
    RecordedRun run;
    run.prompt_tokens        = random_tokens(6, 250);
    run.generate.n_predict   = 40;
    run.generate.auto_length = true;
    for (const char * setting : {"eos_id=3", "initial_gen_length=8", "expansion_factor=4", "low_conf_threshold=1",
                                 "high_conf_threshold=0.9", "eos_check_tokens=6", "eos_confidence_threshold=0"}) {
        apply_setting(run.generate, setting);
    }
    run.generate.block_length = 6;
    RecordParams record;
    record.path = temp_dir() + "/run.npz";
    Recorder       recorder(record, model->info(), model->vocab(), run);
    GenerateParams params = run.generate;
    recorder.attach(params);
    const Generation out = generate(*context, run.prompt_tokens, params);
    recorder.finish();
    CHECK(std::filesystem::file_size(record.path) <= recorder.predicted_size());
    CHECK(out.sequence.size() == 46); // unsure of everything, it grows to its limit
    CHECK(std::count_if(out.steps.begin(), out.steps.end(), [](const StepReport & s) { return s.growth->at >= 0; }) >
          2);

    const auto recording = analysis::Recording::open(record.path);
    const auto unmasked  = recording.unmask_step();
    REQUIRE(recording.n_positions() == 46);
    REQUIRE(recording.n_steps() == out.steps.size());
    CHECK(recording.token(0, 13) == model->info().traits.mask_id);
    CHECK(recording.token(0, 14) == -1); // not there yet
    for (size_t position = 0; position < 46; position++) {
        CHECK(recording.token(out.steps.size(), position) == out.sequence[position]);
        CHECK((unmasked[position] == -1) == (position < 6));
        CHECK(unmasked[position] < static_cast<int32_t>(out.steps.size()));
    }
    // the last step's tokens are where it left them
    for (const auto & [position, id] : out.steps.back().committed) {
        CHECK(unmasked[static_cast<size_t>(position)] == static_cast<int32_t>(out.steps.size()) - 1);
        CHECK(out.sequence[static_cast<size_t>(position)] == id);
    }
}

TEST_CASE("cli: -n auto") {
    const Args model = {"-m", tiny_model("llada"), "-p", "a"};
    check_refused(cli(model + Args{"--max-predict", "8"}), "--max-predict needs -n auto");
    check_refused(cli(model + Args{"-n", "auto", "--diffusion-threshold", "0.5"}),
                  "can't be combined with a threshold");
    const auto out = cli_json(model + Args{"-n", "auto", "--max-predict", "20", "--ignore-eos", "--diffusion-set",
                                           "eos_id=3", "--diffusion-set", "initial_gen_length=4"});
    CHECK(out["tokens"].size() <= 20);
    CHECK(out["steps"][0]["stage"] == 1);
    CHECK(out["steps"][0]["gen_length"] == 4);
    CHECK(out["settings"]["initial_gen_length"] == 4);
}

TEST_CASE("a frontier measures each method once, and goes on where it was stopped") {
    FrontierParams params;
    RandomModel    tiny       = small_model("llada");
    params.model              = random_gguf(tiny);
    params.data               = write_file(temp_dir(), "questions.jsonl",
                                           "{\"question\": \"Who?\", \"answers\": [\"the cat\"], \"passages\": [\"The cat sat.\"]}\n"
                                                         "{\"question\": \"What?\", \"answers\": [\"a mat\"], \"passages\": [\"A mat lay.\"]}\n");
    params.context.n_ctx      = 1024;
    params.generate.n_predict = 8;
    params.output             = temp_dir() + "/measured.jsonl";
    params.methods  = {{"exact", ""}, {"threshold", "threshold=0.001"}, {"none", "algorithm=pc"}, {"d2", "cache=d2"}};
    size_t n_asked  = 0;
    params.stopped  = [&] { return n_asked >= 3; };
    params.progress = [&](size_t, size_t) { n_asked++; };
    const FrontierReport part = measure_frontier(params);
    CHECK(!part.complete);
    CHECK(part.table.rows.size() == 1);
    params.stopped             = {};
    n_asked                    = 0;
    const FrontierReport whole = measure_frontier(params);
    CHECK(whole.complete);
    CHECK(n_asked == 4); // exact was there
    REQUIRE(whole.table.rows.size() == 3);
    CHECK(whole.left_out.size() == 1);
    CHECK(whole.figure.figure.charts.size() == 1); // speeds of two runs can't be compared
    const auto number = [&](size_t row, size_t column) { return std::get<double>(whole.table.rows[row][column]); };
    CHECK(number(0, 8) == 8.0); // passes: one for each token
    CHECK(number(1, 8) < 8.0);
    CHECK(number(1, 10) > 1.0); // fewer rows
    CHECK(number(2, 9) < number(0, 9));
    params.generate.n_predict = 9;
    CHECK_THROWS_WITH_AS(measure_frontier(params), doctest::Contains("made with other questions"), Error);
}

TEST_CASE("a story is right if it has the sentences in their order, and one word of a role") {
    const StorySet set = parse_stories("stories.json", R"({
        "requests": ["Tell a story about Mira.", "Tell a story about a goat."],
        "sentences": ["(?:Mira|Oren) met a (?:fox|goat)\\.", "They sang\\.|The (?:fox|goat) sang\\."],
        "roles": {"person": ["Mira", "Oren"], "animal": ["fox", "goat"]}})");
    REQUIRE(set.requests.size() == 2);
    CHECK(set.is_right(set.requests[0], "Mira met a fox. The fox sang."));
    CHECK(set.is_right(set.requests[0], " Mira met a fox. They sang.\n"));
    CHECK(set.is_right(set.requests[1], "Oren met a goat. They sang."));
    CHECK(!set.is_right(set.requests[0], "Mira met a fox. The goat sang.")); // two animals
    CHECK(!set.is_right(set.requests[0], "Oren met a fox. They sang."));     // another person than asked for
    CHECK(!set.is_right(set.requests[0], "Mira met a fox."));
    CHECK(!set.is_right(set.requests[0], "The fox sang. Mira met a fox."));
    CHECK(!set.is_right(set.requests[0], "Mira met a fox. They sang. They sang."));
    CHECK(!set.is_right(set.requests[0], "Mira met a fox They sang."));
    CHECK(!set.is_right(set.requests[0], ""));
    CHECK(!has_stories("{\"question\": \"Who?\", \"answers\": [\"a\"]}\n"));
    CHECK_THROWS_WITH_AS(parse_stories("s.json", R"({"requests": ["a"], "sentences": ["("]})"),
                         doctest::Contains("s.json: sentence 1 is no regular expression"), Error);
    CHECK_THROWS_WITH_AS(parse_stories("s.json", R"({"requests": "a", "sentences": ["b"]})"),
                         doctest::Contains("s.json: requests: expected a list of strings"), Error);
    CHECK_THROWS_WITH_AS(parse_stories("s.json", R"({"requests": []})"), doctest::Contains("s.json"), Error);
}

TEST_CASE("a frontier scores stories, and measures what a preset means") {
    FrontierParams params;
    params.model              = source_dir() + "/models/buoy-mdm.gguf";
    params.data               = source_dir() + "/models/heldout-stories-200.json";
    params.context.n_ctx      = 128;
    params.context.n_threads  = 1;
    params.generate.n_predict = 64;
    params.n_items            = 3;
    params.methods            = {{"exact", ""}, {"fast", "preset=fast"}};
    std::vector<std::string> begun;
    params.begins               = [&](const FrontierMethod & method) { begun.push_back(method.name); };
    const FrontierReport report = measure_frontier(params);
    REQUIRE(report.table.rows.size() == 2);
    CHECK(begun == std::vector<std::string>{"exact", "fast"});
    CHECK(report.figure.figure.charts.size() == 2);
    const auto number = [&](size_t row, size_t column) { return std::get<double>(report.table.rows[row][column]); };
    CHECK(number(0, 2) > 0.0);  // some of them are right
    CHECK(number(1, 10) > 5.0); // fewer rows
    const std::string settings = std::get<std::string>(report.table.rows[1][1]);
    CHECK(contains(settings, "cache="));
    CHECK(!contains(settings, "preset"));
}
