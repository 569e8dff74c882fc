// What the evaluation keeps of the attention, against the analysis of full recordings of the same answers.

#include "analysis/retrieval-score.h"
#include "analysis/studies.h"
#include "buoy/bundled.h"
#include "buoy/error.h"
#include "eval/attention-edits.h"
#include "eval/attention-probe.h"
#include "eval/attention-span.h"
#include "eval/prompt.h"
#include "support/cli.h"
#include "support/paths.h"
#include "support/random-context.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

using namespace buoy;
using namespace buoy::test;

namespace {

// f32 weights' products and f32 K/V; the numbers are rounded to 7 digits
constexpr double tolerance = 1e-5;

const QaItem item = {
    0,
    "1",
    "Of what is the tower on Doreth?",
    {{"", "Mira goes swimming on Friday.", false},
     {"", "People say that Doreth is famous for its oil and is proud of a great tower of bronze.", true},
     {"", "Fabo goes to the sea by train and goes swimming on Tuesday.", false},
     {"", "Hilla goes to the sea by tram. She goes swimming on Sunday.", false},
     {"", "Zandor has a tower of brick.", false}},
    true,
    {"marble", "Bronze"}};

// A model with a question for it.
struct Bench {
    Vocab                    vocab;
    std::unique_ptr<Context> context;
    QaPrompt                 prompt;
    GenerateParams           params;

    using Load = std::unique_ptr<Context> (*)(const TestModel &, const ContextParams &);

    explicit Bench(const std::string & path, int32_t n_predict = 8, int32_t n_ctx = 256, Load load = load_context)
        : vocab(Vocab::load(path)) {
        TestModel     model;
        ContextParams settings;
        model.path         = path;
        settings.n_ctx     = n_ctx;
        settings.n_threads = 1;
        settings.flash     = FlashAttention::off;
        settings.type_k    = KvType::f32;
        settings.type_v    = KvType::f32;
        context            = load(model, settings);
        params.n_predict   = n_predict;
        params.end_ids     = vocab.end_ids();
        const PromptTemplate form("test", "{{#passages}}\n{{n}}. {{text}}\n{{/passages}}\n{{question}}\n");
        prompt = make_qa_prompt(vocab, form, {false, params.n_predict, n_ctx}, item.question, item.passages);
    }

    // The settings with a condition's edits; the editor must live as long as they.
    GenerateParams edited(const std::vector<QaEdit> & edits, std::unique_ptr<AttentionEditor> & editor) const {
        GenerateParams out = params;
        QaCondition    condition;
        condition.edits = edits.empty() ? std::vector<EditSpec>() : edits[0].specs;
        editor          = make_qa_editor(condition, *context, prompt, params);
        if (editor) {
            editor->attach(out);
        }
        return out;
    }

    // Records the answer with these regions; the path.
    std::string record(const std::vector<QaEdit> & edits, const std::vector<Region> & regions) const {
        std::unique_ptr<AttentionEditor> editor;
        GenerateParams                   out = edited(edits, editor);
        RecordParams                     record;
        record.path    = temp_dir() + "/run.npz";
        record.force   = true;
        record.reduce  = TapReduce::none;
        record.type    = RecordType::f32;
        record.regions = regions;
        RecordedRun run;
        run.prompt_tokens = prompt.tokens;
        run.generate      = params;
        Recorder recorder(record, context->info(), vocab, run);
        recorder.attach(out);
        generate(*context, prompt.tokens, out);
        recorder.finish();
        return record.path;
    }
};

std::vector<Region> flow_regions(const QaPrompt & prompt) {
    std::vector<Region> out = prompt.regions;
    out.erase(
        std::remove_if(out.begin(), out.end(), [](const Region & r) { return r.name == "gold" || r.name == "other"; }),
        out.end());
    return out;
}

std::vector<double> numbers_in(const nlohmann::ordered_json & json) {
    std::vector<double> out;
    for (const auto & one : json.flatten()) {
        out.push_back(one.is_null() ? std::nan("") : one.get<double>());
    }
    return out;
}

void check_close(const nlohmann::ordered_json & found, const nlohmann::ordered_json & expected, double unit = 1) {
    const std::vector<double> a = numbers_in(found), b = numbers_in(expected);
    REQUIRE(a.size() == b.size());
    REQUIRE(!a.empty());
    double worst = 0;
    for (size_t i = 0; i < a.size(); i++) {
        worst = std::max(worst, std::abs(a[i] - b[i]));
    }
    CHECK(worst <= tolerance * unit);
}

// From the definition: mean over the answer's tokens and over heads, of the step and row that wrote each.
nlohmann::ordered_json gold_attention(const analysis::Recording & run, size_t n_tokens) {
    const std::vector<int32_t> steps = run.unmask_step();
    nlohmann::ordered_json     out;
    for (const int32_t layer : run.layers()) {
        double sum = 0;
        for (size_t i = run.n_prompt(); i < run.n_prompt() + n_tokens; i++) {
            const analysis::Array        pattern = run.read(Tap::pattern, steps[i], layer);
            const std::vector<int32_t> & rows    = run.rows(steps[i]);
            const size_t                 row     = static_cast<size_t>(
                std::find(rows.begin(), rows.end(), static_cast<int32_t>(i) - (run.shift() ? 1 : 0)) - rows.begin());
            REQUIRE(row < rows.size());
            const size_t H = pattern.shape[0], K = pattern.shape[2];
            for (const auto & [first, end] : run.region("gold")->spans) {
                for (auto key = static_cast<size_t>(first); key < static_cast<size_t>(end); key++) {
                    for (size_t h = 0; h < H; h++) {
                        sum += static_cast<double>(pattern.values[(h * rows.size() + row) * K + key]) /
                               static_cast<double>(H * n_tokens);
                    }
                }
            }
        }
        out.push_back(sum);
    }
    return out;
}

void check_against_recordings(const Bench & bench, const std::vector<QaEdit> & edits) {
    const std::unique_ptr<QaProbe>   probe = make_attention_probe(*bench.context, bench.vocab, item, bench.prompt);
    std::unique_ptr<AttentionEditor> editor;
    GenerateParams                   params = bench.edited(edits, editor);
    probe->attach(params);
    const Generation             answer = generate(*bench.context, bench.prompt.tokens, params);
    const std::string            text   = bench.vocab.decode(answer.tokens);
    const nlohmann::ordered_json found  = probe->result(answer, text, {});
    CAPTURE(text);

    analysis::StudyParams study;
    study.paths           = {bench.record(edits, flow_regions(bench.prompt))};
    const auto absorption = analysis::study_absorption(study).json["recordings"][0];
    check_close(found["absorption"], absorption["by_layer"]["absorption"], 100);
    const auto rollout = analysis::study_rollout(study).json["recordings"][0];
    CHECK(found["regions"] == rollout["regions"]);
    check_close(found["rollout"], rollout["flow"]);

    const AnswerSpan    span    = find_answer_span(bench.vocab, item, bench.prompt);
    std::vector<Region> regions = bench.prompt.regions;
    REQUIRE(!span.positions.empty());
    regions.push_back(
        {"said", {{static_cast<int32_t>(span.positions.front()), static_cast<int32_t>(span.positions.back()) + 1}}});
    const analysis::Recording run = analysis::Recording::open(bench.record(edits, regions));
    REQUIRE(!answer.tokens.empty());
    check_close(found["gold"], gold_attention(run, answer.tokens.size()));
    CHECK(found["recall"].get<double>() == doctest::Approx(analysis::answer_recall(run, "said")));
    if (found["recall"].get<double>() > 50) {
        check_close(found["retrieval"], analysis::retrieval_scores(run, "said", run.layers()));
    } else {
        CHECK(found["retrieval"].is_null());
    }
}

} // namespace

TEST_CASE("attention while evaluating is that of full recordings") {
    for (const char * name : {bundled_diffusion_model, bundled_autoregressive_model}) {
        CAPTURE(name);
        const Bench bench(find_model(name));
        check_against_recordings(bench, {});
    }
}

TEST_CASE("attention while evaluating, with edits, is that of full recordings") {
    for (const char * name : {bundled_diffusion_model, bundled_autoregressive_model}) {
        CAPTURE(name);
        const Bench bench(find_model(name));
        for (const ReadyEdit & edit : ready_edits()) {
            CAPTURE(edit.name);
            check_against_recordings(bench, parse_qa_edits({edit.name}));
        }
        check_against_recordings(bench,
                                 parse_qa_edits({"mine: drop keys=doc1 layers=1", "mine: bias keys=0 +2.0 steps=2-"}));
    }
}

TEST_CASE("attention while evaluating: a block-causal model with its cache") {
    Bench bench(tiny_model("sdar"), 24, 512); // several blocks
    bench.params.end_ids.clear();
    check_against_recordings(bench, {});
    check_against_recordings(bench, parse_qa_edits({"gold-unseen"}));
}

TEST_CASE("attention while evaluating through libllama; edits are refused in a line that says why") {
    const Bench bench(find_model(bundled_autoregressive_model), 8, 256, load_llama_context);
    check_against_recordings(bench, {});
    std::unique_ptr<AttentionEditor> editor;
    CHECK_THROWS_WITH_AS(bench.edited(parse_qa_edits({"sinks-dropped"}), editor), doctest::Contains("libllama"), Error);
}

TEST_CASE("attention while evaluating: blocks, several tokens a step") {
    Bench bench(find_model(bundled_diffusion_model));
    bench.params.block_length = 4;
    check_against_recordings(bench, {});
    bench.params.threshold = 0.5f;
    check_against_recordings(bench, {});
}

// The rows that write need not see the passage themselves: those of the question have read it. Hidden from everybody it is lost.
TEST_CASE("the twins copy the answer with some heads, and these see nothing of a passage that is unseen or hidden") {
    for (const char * name : {bundled_diffusion_model, bundled_autoregressive_model}) {
        CAPTURE(name);
        const Bench bench(find_model(name));
        for (const std::string edit : {"", "gold-unseen", "hidden: drop keys=gold"}) {
            CAPTURE(edit);
            std::unique_ptr<AttentionEditor> editor;
            GenerateParams params = bench.edited(edit.empty() ? std::vector<QaEdit>() : parse_qa_edits({edit}), editor);
            const auto     probe  = make_attention_probe(*bench.context, bench.vocab, item, bench.prompt);
            probe->attach(params);
            const Generation  answer = generate(*bench.context, bench.prompt.tokens, params);
            const std::string text   = bench.vocab.decode(answer.tokens);
            const auto        found  = probe->result(answer, text, {});
            double            most = 0, copied = 0;
            for (const double share : found["gold"]) {
                most = std::max(most, share);
            }
            for (size_t l = 0; found["retrieval"].is_array() && l < found["retrieval"].size(); l++) {
                for (const double score : found["retrieval"][l]) {
                    copied = std::max(copied, score);
                }
            }
            CHECK((most > 0.1) == edit.empty());
            CHECK((most == 0) == !edit.empty());
            CHECK((copied > 0) == edit.empty());
            CHECK((text == "Of bronze.") == (edit.size() < 12));
        }
    }
}

TEST_CASE("edits as conditions are read by name") {
    const std::vector<QaEdit> edits =
        parse_qa_edits({"sinks-dropped", "mine: drop keys=0", "drop keys=sinks:2.5", "mine:bias keys=1 +1.0"});
    REQUIRE(edits.size() == 3);
    CHECK(edits[0].name == "sinks-dropped");
    CHECK(edits[1].name == "mine");
    CHECK(edits[1].specs.size() == 2);
    CHECK(edits[1].specs[1].text == "bias keys=1 +1.0");
    CHECK(edits[2].name == "drop keys=sinks:2.5");
    for (const char * wrong : {"sinks-droped", "mine:", "mine: drop", "drop keys", ""}) {
        CAPTURE(wrong);
        CHECK_THROWS_AS(parse_qa_edits({wrong}), Error);
    }
    CHECK_THROWS_AS(parse_qa_edits({"mine: drop keys=0", "mine: drop keys=0"}), Error);
}

TEST_CASE("an edit may name a region that a prompt lacks") {
    Bench                bench(find_model(bundled_autoregressive_model));
    const PromptTemplate form("test", "{{question}}\n");
    bench.prompt = make_qa_prompt(bench.vocab, form, {false, bench.params.n_predict, 256}, item.question, {});
    std::unique_ptr<AttentionEditor> editor;
    const GenerateParams             params = bench.edited(parse_qa_edits({"gold-unseen"}), editor);
    REQUIRE(editor);
    CHECK(generate(*bench.context, bench.prompt.tokens, params).sequence ==
          generate(*bench.context, bench.prompt.tokens, bench.params).sequence);
    CHECK(editor->uses()[0].n_places == 0);
    CHECK_THROWS_AS(bench.edited(parse_qa_edits({"drop keys=doc9"}), editor), Error);
}
