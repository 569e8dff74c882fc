// DiffusionGemma: passes and generation cases of the oracles, from the file that llama.cpp's ports write, and what must hold for any
// model of the kind.

#include "buoy/error.h"
#include "buoy/files.h"
#include "buoy/generate.h"
#include "buoy/record.h"
#include "buoy/replay-case.h"
#include "buoy/session.h"
#include "buoy/step-count.h"
#include "io/json-file.h"
#include "io/npz-reader.h"
#include "support/cli.h"
#include "support/gguf-bytes.h"
#include "support/hf-dir.h"
#include "support/oracle.h"
#include "support/paths.h"
#include "support/random-context.h"
#include "support/tap-log.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>

using namespace buoy;
using namespace buoy::test;

namespace {

using Json = nlohmann::json;

std::string port_path() { return Oracle("diffusion-gemma").dir + "/port-f32.gguf"; }

std::unique_ptr<Context> load_port(int32_t n_sequences = 1) {
    TestModel     model;
    ContextParams params = exact_params();
    model.path           = port_path();
    params.n_ctx         = 64;
    params.n_sequences   = n_sequences;
    return load_context(model, params);
}

// A prompt that is read, and a canvas behind it.
struct Passes {
    ForwardRequest prompt, canvas;
};

Passes passes(const std::vector<int32_t> & prompt, const std::vector<int32_t> & canvas, int32_t sequence = 0) {
    std::vector<int32_t> all = prompt;
    all.insert(all.end(), canvas.begin(), canvas.end());
    const auto n_prompt = static_cast<int32_t>(prompt.size());
    Passes     out{stored_part(all, 0, n_prompt), stored_part(all, n_prompt, static_cast<int32_t>(all.size()))};
    out.prompt.attention = AttentionKind::causal;
    out.canvas.attention = AttentionKind::full;
    out.prompt.sequence = out.canvas.sequence = sequence;
    return out;
}

// One layer's activation, [heads, rows, dims].
std::vector<float> one_tap(Context & context, const ForwardRequest & request, Tap tap, int32_t layer) {
    return observe(context, request, {{tap, layer}}).at(tap_key({tap, layer})).data;
}

std::vector<float> npz_floats(const NpzReader & npz, const std::string & name) {
    NpyHeader header;
    return npz.read_floats(npz.get(name), header);
}

std::vector<int32_t> npz_ints(const NpzReader & npz, const std::string & name) {
    NpyHeader  header;
    const auto wide = npz.read_ints(npz.get(name), header);
    return {wide.begin(), wide.end()};
}

RandomModel tiny() {
    RandomModel model = small_model("diffusion-gemma", 6);
    model.n_layer     = 4;
    model.n_head      = 4;
    model.n_head_kv   = 4;
    model.n_ctx       = 256; // so the window is 8
    model.tied        = true;
    return model;
}

GenerateParams short_params() {
    GenerateParams params;
    params.n_predict                       = 12;
    params.settings["max_denoising_steps"] = {5};
    params.settings["entropy_bound"]       = {3.0};
    params.seed                            = 7;
    return params;
}

} // namespace

TEST_CASE("DiffusionGemma: a prompt that is read, a canvas, and one that is conditioned") {
    const Oracle oracle("diffusion-gemma");
    const auto   context = load_port();
    const auto   L       = static_cast<size_t>(context->info().n_layer);
    Passes       p       = passes(oracle.ids("prompt_ids"), oracle.ids("canvas_ids"));

    auto seen = watch_layers(*context, p.prompt);
    CHECK(max_abs_diff(seen[Tap::pattern], oracle.floats("enc_attn")) <= 1e-5);
    CHECK(nmse(seen[Tap::resid_post], behind_blocks(oracle.floats("enc_hidden"), L)) <= 1e-9);

    CHECK(max_abs_diff(context->forward(p.canvas).logits, oracle.floats("logits")) <= 3e-4);
    seen = watch_layers(*context, p.canvas);
    CHECK(max_abs_diff(seen[Tap::pattern], oracle.floats("attn")) <= 1e-5);
    CHECK(nmse(seen[Tap::resid_post], behind_blocks(oracle.floats("hidden"), L)) <= 1e-9);

    const Json & qk = oracle.expected["forward"]["qk_layers"];
    for (const char * kind : {"sliding", "full"}) {
        const int32_t layer = qk[kind];
        CHECK(max_abs_diff(one_tap(*context, p.canvas, Tap::rot_q, layer), oracle.floats(std::string("q_") + kind)) <=
              1e-4);
    }

    p.canvas.condition.emplace().logits = oracle.floats("sc_logits_in");
    CHECK(max_abs_diff(context->forward(p.canvas).logits, oracle.floats("sc_logits")) <= 3e-4);
    seen = watch_layers(*context, p.canvas);
    CHECK(max_abs_diff(seen[Tap::pattern], oracle.floats("sc_attn")) <= 1e-5);
    CHECK(nmse(seen[Tap::resid_post], behind_blocks(oracle.floats("sc_hidden"), L)) <= 1e-9);

    // those that the pass before kept are the same
    ForwardRequest first = p.canvas, second = p.canvas;
    first.condition.reset();
    first.keep_logits                      = true;
    second.condition.emplace().temperature = oracle.expected["forward"]["sc_temperature"].get<float>();
    context->forward(first);
    CHECK(max_abs_diff(context->forward(second).logits, oracle.floats("sc_logits")) <= 3e-4);
}

TEST_CASE("DiffusionGemma replays every case, step for step, through the program") {
    const Oracle      oracle("diffusion-gemma");
    const std::string file = oracle.dir + "/expected.json";
    for (const Json & c : oracle.expected["cases"]) {
        const std::string id = c["id"];
        CAPTURE(id);
        const Json out = cli_json({"-m", port_path(), "--case", file + ":" + id});
        CHECK(out["sequence"] == c["output_ids"]);
        CHECK(out["case"]["encoder_calls"] == c["encoder_calls"]);
        CHECK(out["case"]["nfe"] == c["nfe"]);
        REQUIRE(out["steps"].size() == c["steps"].size());
        for (size_t i = 0; i < c["steps"].size(); i++) {
            CAPTURE(i);
            const Json &expected = c["steps"][i], &step = out["steps"][i];
            CHECK(step["committed"] == expected["changed"]);
            CHECK(step["block"] == expected["canvas"]);
            for (const char * name : {"sampled", "accepted", "argmax"}) {
                CHECK(step["probe"][name].get<std::vector<int32_t>>() == expected[name].get<std::vector<int32_t>>());
            }
            CHECK(std::abs(step["probe"]["mean_entropy"][0].get<double>() - expected["mean_entropy"].get<double>()) <
                  1e-3);
            CHECK((step["probe"]["stop"][0] != 0.0) == expected["stop"].get<bool>());
        }
    }
}

TEST_CASE("--canvas writes the logits of a canvas, and records it") {
    const Oracle      oracle("diffusion-gemma");
    const std::string dir = temp_dir();
    const auto        ids = [&](const char * name) {
        std::string text;
        for (const int32_t id : oracle.ids(name)) {
            text += (text.empty() ? "" : ",") + std::to_string(id);
        }
        return text;
    };
    const std::vector<int64_t> shape = oracle.shape("logits");
    write_npy(dir + "/in.npy", shape, oracle.floats("sc_logits_in"));
    const std::vector<std::string> args  = {"-m",       port_path(),       "--tokens", ids("prompt_ids"),
                                            "--canvas", ids("canvas_ids"), "-fa",      "off"};
    std::vector<std::string>       plain = args, conditioned = args;
    plain.insert(plain.end(), {"--logits-out", dir + "/out.npy", "--attn-dump", dir + "/run.npz", "--attn-reduce",
                               "none", "--attn-dtype", "f32"});
    conditioned.insert(conditioned.end(), {"--canvas-logits", dir + "/in.npy", "--logits-out", dir + "/sc.npy"});
    REQUIRE(cli(plain).code == 0);
    REQUIRE(cli(conditioned).code == 0);
    CHECK(max_abs_diff(read_npy(dir + "/out.npy", shape), oracle.floats("logits")) <= 3e-4);
    CHECK(max_abs_diff(read_npy(dir + "/sc.npy", shape), oracle.floats("sc_logits")) <= 3e-4);

    const NpzReader    npz = NpzReader::open(dir + "/run.npz");
    std::vector<float> patterns;
    for (int32_t il = 0; il < static_cast<int32_t>(oracle.shape("attn")[0]); il++) {
        const auto member = npz_floats(npz, "attn/step_0000/layer_0" + std::to_string(il));
        patterns.insert(patterns.end(), member.begin(), member.end());
    }
    CHECK(max_abs_diff(patterns, oracle.floats("attn")) <= 1e-5);
}

TEST_CASE("canvases: a prompt in parts, a second run from the store, and a batch give the same") {
    ContextParams params                = exact_params();
    params.n_sequences                  = 3;
    const auto                 context  = random_context(tiny(), params);
    const std::vector<int32_t> prompt   = random_tokens(21, 250);
    GenerateParams             settings = short_params();
    const Generation           out      = generate(*context, prompt, settings);
    CHECK(out.sequence.size() == 21 + 12);
    CHECK(out.steps.size() == 10);
    CHECK(static_cast<int64_t>(out.steps.size()) == step_count_max(context->info(), prompt, settings));
    CHECK(out.reads == std::vector<std::pair<int32_t, int32_t>>{{0, 21}, {21, 6}});
    CHECK(generate(*context, prompt, settings).sequence == out.sequence);

    GenerateParams parts = settings;
    parts.n_batch        = 8;
    CHECK(generate(*context, prompt, parts).sequence == out.sequence);

    Session session(*context);
    session.generate(prompt, settings);
    const Generation again = session.generate(prompt, settings);
    CHECK(again.sequence == out.sequence);
    CHECK(again.reads == std::vector<std::pair<int32_t, int32_t>>{{20, 1}, {21, 6}});

    // sequences that read while others denoise
    std::vector<BatchItem> items;
    for (int32_t i = 0; i < 5; i++) {
        GenerateParams own                  = short_params();
        own.seed                            = static_cast<uint64_t>(i);
        own.settings["max_denoising_steps"] = {static_cast<double>(3 + i)};
        own.n_batch                         = 4 + i;
        items.push_back({random_tokens(static_cast<size_t>(9 + 5 * i), 250, static_cast<uint32_t>(i)), own});
    }
    const std::vector<Generation> all = generate_batch(*context, items);
    for (size_t i = 0; i < items.size(); i++) {
        CAPTURE(i);
        CHECK(all[i].sequence == generate(*context, items[i].prompt, items[i].params).sequence);
    }
}

// Sums in double, of what ggml's own operations could give.
TEST_CASE("a condition is the softmax's mean embedding: logits that name one token give its own") {
    const auto                 context = random_context(tiny());
    const int32_t              V       = context->info().n_vocab;
    const std::vector<int32_t> canvas  = random_tokens(6, 250, 3);
    Passes                     p       = passes(random_tokens(9, 250), canvas);
    context->forward(p.prompt);
    const std::vector<float> plain = context->forward(p.canvas).logits;

    // all the weight on one token; then on two, one of which is below what a float's rounding shows
    std::vector<float> one(6 * static_cast<size_t>(V), -1000.0f), two = one;
    for (size_t i = 0; i < 6; i++) {
        one[i * static_cast<size_t>(V) + 11] = two[i * static_cast<size_t>(V) + 11] = 50.0f;
        two[i * static_cast<size_t>(V) + 200]                                       = 50.0f - 60.0f;
    }
    p.canvas.condition.emplace().logits  = one;
    const std::vector<float> conditioned = context->forward(p.canvas).logits;
    CHECK(max_abs_diff(conditioned, plain) > 1e-2);
    p.canvas.condition->logits = two;
    CHECK(context->forward(p.canvas).logits == conditioned);
    p.canvas.condition->temperature = 100.0f; // now both count
    CHECK(max_abs_diff(context->forward(p.canvas).logits, conditioned) > 1e-3);

    p.canvas.condition->logits.pop_back();
    CHECK_THROWS_WITH_AS(context->forward(p.canvas), doctest::Contains("expected 320 for each of 6"), Error);
}

TEST_CASE("drawn tokens follow the tempered distribution") {
    const auto context = random_context(tiny());
    Passes     p       = passes(random_tokens(9, 250), random_tokens(6, 250, 3));
    context->forward(p.prompt);
    const std::vector<float> logits = context->forward(p.canvas).logits;
    const auto               V      = static_cast<size_t>(context->info().n_vocab);
    p.canvas.output                 = OutputKind::summary;
    for (const float u : {0.0f, 0.25f, 0.9990234375f}) {
        p.canvas.draw                       = RowDraw{0.7f, std::vector<float>(6, u)};
        const std::vector<RowSummary> drawn = context->forward(p.canvas).summaries;
        for (size_t row = 0; row < 6; row++) {
            const float * z       = logits.data() + row * V;
            const double  largest = static_cast<double>(*std::max_element(z, z + V));
            const auto    e       = [&](size_t i) { return std::exp((static_cast<double>(z[i]) - largest) / 0.7); };
            double        sum = 0.0, entropy = 0.0, before = 0.0;
            for (size_t i = 0; i < V; i++) {
                sum += e(i);
            }
            for (size_t i = 0; i < V; i++) {
                entropy -= e(i) / sum * std::log(e(i) / sum);
            }
            size_t expected = 0;
            while ((before += e(expected)) <= static_cast<double>(u) * sum) {
                expected++;
            }
            CHECK(drawn[row].drawn_id == static_cast<int32_t>(expected));
            CHECK(drawn[row].id == static_cast<int32_t>(std::max_element(z, z + V) - z));
            CHECK(std::abs(static_cast<double>(drawn[row].entropy) - entropy) < 1e-4);
        }
    }
}

TEST_CASE("a canvas on a layer with a window sees the tokens just before it, the same for every row") {
    const auto                 context = random_context(tiny());
    const std::vector<int32_t> prompt  = random_tokens(21, 250);
    Passes                     p       = passes(prompt, random_tokens(12, 250, 3)); // longer than the window
    context->forward(p.prompt);
    const Seen    seen   = observe(*context, p.canvas, {{Tap::pattern, 0}}).at(tap_key({Tap::pattern, 0}));
    const int32_t window = 8;
    for (int64_t row = 0; row < 12; row++) {
        for (int64_t key = 0; key < 33; key++) {
            CHECK((seen.at(0, row, key) > 0.0f) == (key > 21 - window));
        }
    }
    const Seen whole = observe(*context, p.canvas, {{Tap::pattern, 3}}).at(tap_key({Tap::pattern, 3}));
    CHECK(whole.at(0, 0, 0) > 0.0f);
}

TEST_CASE("canvases are recorded as they were, and edits reach them") {
    const auto                        context = random_context(tiny());
    const std::vector<int32_t>        prompt  = random_tokens(7, 250);
    GenerateParams                    params  = short_params();
    std::vector<std::vector<int32_t>> before; // canvas of each step
    RecordParams                      record;
    record.path = temp_dir() + "/run.npz";
    RecordedRun run;
    run.prompt_tokens = prompt;
    run.generate      = params;
    Recorder recorder(record, context->info(), context->model().vocab(), run);
    params.on_forward = [&](int32_t, ForwardRequest & request) { before.push_back(request.tokens); };
    recorder.attach(params);
    const Generation out = generate(*context, prompt, params);
    recorder.finish();

    const NpzReader            npz    = NpzReader::open(record.path);
    const std::vector<int32_t> tokens = npz_ints(npz, "tokens");
    const size_t               T = out.sequence.size(), S = out.steps.size();
    REQUIRE(tokens.size() == (S + 1) * T);
    CHECK(std::equal(out.sequence.begin(), out.sequence.end(), tokens.end() - static_cast<ptrdiff_t>(T)));
    for (size_t step = 0; step < S; step++) {
        const size_t first = prompt.size() + static_cast<size_t>(out.steps[step].block) * 6;
        CHECK(std::equal(before[step].begin(), before[step].end(),
                         tokens.begin() + static_cast<ptrdiff_t>(step * T + first)));
    }
    CHECK(npz_ints(npz, "rows/step_0007") == range(13, 19));

    params            = short_params();
    params.on_forward = [](int32_t, ForwardRequest & request) {
        request.edits.push_back({3, {}, {}, {0, 1, 2, 3}, -INFINITY});
    };
    CHECK(generate(*context, prompt, params).sequence != out.sequence);
}

TEST_CASE("a canvas ends where its best guess does, and a run that is stopped has that guess") {
    const auto                 context = random_context(tiny());
    const std::vector<int32_t> prompt  = random_tokens(7, 250);
    GenerateParams             params  = short_params();
    const Generation           out     = generate(*context, prompt, params);

    params.end_ids                  = {out.sequence[9]}; // in the first canvas
    params.settings["pad_token_id"] = {5};
    const Generation ended          = generate(*context, prompt, params);
    CHECK(ended.ended);
    CHECK(ended.steps.size() == 5);
    std::vector<int32_t> expected(out.sequence.begin(), out.sequence.begin() + 13);
    const auto           end = std::find(expected.begin() + 7, expected.end(), params.end_ids[0]);
    std::fill(end + 1, expected.end(), 5);
    CHECK(ended.sequence == expected);
    CHECK(ended.tokens == std::vector<int32_t>(expected.begin() + 7, end));

    params               = short_params();
    params.on_step       = [](const StepReport & step, const std::vector<int32_t> &) { return step.step < 2; };
    const Generation cut = generate(*context, prompt, params);
    CHECK(cut.stopped);
    params                                 = short_params();
    params.settings["max_denoising_steps"] = {5};
    std::vector<float> best;
    params.on_step = [&](const StepReport & step, const std::vector<int32_t> &) {
        best = step.step == 2 ? step.measured[2].values : best;
        return true;
    };
    generate(*context, prompt, params);
    CHECK(std::equal(best.begin(), best.end(), cut.sequence.begin() + 7,
                     [](float a, int32_t b) { return static_cast<int32_t>(a) == b; }));
}

TEST_CASE("what a model that writes canvases does not do") {
    const auto context = random_context(tiny());
    const auto error   = [&](auto change) {
        GenerateParams params = short_params();
        change(params);
        try {
            generate(*context, random_tokens(5, 250), params);
        } catch (const Error & e) {
            return std::string(e.what());
        }
        return std::string();
    };
    CHECK(error([](GenerateParams & p) { p.temperature = 1.0f; }).find("no place for a temperature") !=
          std::string::npos);
    CHECK(error([](GenerateParams & p) { p.cache = DiffusionCache::dual; }).find("a cache") != std::string::npos);
    CHECK(error([](GenerateParams & p) { p.cfg_scale = 1.0f; }).find("guidance") != std::string::npos);
    CHECK(error([](GenerateParams & p) { p.algorithm = Algorithm::margin; }).find("an algorithm") != std::string::npos);
    CHECK(error([](GenerateParams & p) { p.n_predict = 0; }).find("nothing to write") != std::string::npos);
    CHECK(error([](GenerateParams & p) { p.settings["pad_token_id"] = {100000}; }).find("pad_token_id") !=
          std::string::npos);
    CHECK(error([](GenerateParams & p) { p.draws.resize(1); }).find("recorded draws") != std::string::npos);
    CHECK(error([](GenerateParams & p) { p.n_predict = 250; }).find("whole canvases of 6") != std::string::npos);
}

TEST_CASE("a file of the kind: gates of experts may be separate, and what is wrong is named") {
    const std::string path = random_gguf(tiny());
    const GgufBytes   good = parse_gguf(read_file(path));
    const auto        load = [](const GgufBytes & file) {
        TestModel model;
        model.path = write_file(temp_dir(), "changed.gguf", file.build());
        return load_context(model, exact_params());
    };
    const auto logits = [](Context & context) {
        Passes p = passes(random_tokens(9, 250), random_tokens(6, 250, 3));
        context.forward(p.prompt);
        return context.forward(p.canvas).logits;
    };
    GgufBytes separate = good;
    for (int32_t il = 0; il < 4; il++) {
        const std::string       block = "blk." + std::to_string(il) + ".";
        const GgufBytes::Tensor both  = separate.tensor(block + "ffn_gate_up_exps.weight");
        GgufBytes::Tensor       gate = both, up = both;
        gate.dims[1] = up.dims[1] = both.dims[1] / 2;
        gate.name                 = block + "ffn_gate_exps.weight";
        up.name                   = block + "ffn_up_exps.weight";
        gate.data.clear();
        up.data.clear();
        const size_t half = both.data.size() / static_cast<size_t>(both.dims[2]) / 2; // of an expert
        for (size_t at = 0; at < both.data.size(); at += 2 * half) {
            gate.data += both.data.substr(at, half);
            up.data += both.data.substr(at + half, half);
        }
        separate.erase_tensor(both.name);
        for (GgufBytes::Tensor * one : {&gate, &up}) {
            one->offset.reset();
            separate.tensors.push_back(*one);
        }
    }
    CHECK(max_abs_diff(logits(*load(separate)), logits(*load(good))) <= 1e-6);

    const auto error = [&](auto change) {
        GgufBytes file = good;
        change(file);
        try {
            load(file);
        } catch (const Error & e) {
            return std::string(e.what());
        }
        return std::string();
    };
    const auto has = [&](auto change, const char * text) { return error(change).find(text) != std::string::npos; };
    CHECK(has([](GgufBytes & f) { f.erase_pair("diffusion.canvas_length"); }, "'diffusion.canvas_length'"));
    CHECK(has([](GgufBytes & f) { f.erase_pair("diffusion-gemma.attention.sliding_window_pattern"); },
              "expected a bool for each of the 4 layers, found none"));
    CHECK(has(
        [](GgufBytes & f) {
            f.erase_pair("diffusion-gemma.attention.head_count_kv");
            f.array("diffusion-gemma.attention.head_count_kv", GGUF_TYPE_INT32, 2, le(int32_t{4}) + le(int32_t{1}));
        },
        "expected a number for each of the 4 layers, found 2"));
    CHECK(has(
        [](GgufBytes & f) {
            f.erase_pair("diffusion-gemma.attention.head_count_kv");
            f.u32("diffusion-gemma.attention.head_count_kv", 3);
        },
        "expected divisors of head_count 4, found 3"));
    CHECK(has([](GgufBytes & f) { f.erase_tensor("self_cond_up.weight"); }, "'self_cond_up.weight': missing"));
    CHECK(has([](GgufBytes & f) { f.erase_tensor("blk.1.attn_v.weight"); }, "'blk.1.attn_v.weight': missing"));
}
