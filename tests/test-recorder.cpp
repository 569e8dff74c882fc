#include "buoy/record.h"

#include "buoy/error.h"
#include "io/npz-reader.h"
#include "observe/record-meta.h"
#include "support/paths.h"
#include "support/python.h"
#include "support/recording.h"

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>

using namespace buoy;
using namespace buoy::test;

namespace {

using Shape = std::vector<int64_t>;

const std::vector<Tap> all_taps = {Tap::pattern, Tap::attn_scores, Tap::rot_q, Tap::rot_k, Tap::v, Tap::resid_post};

struct Array {
    NpyHeader          header;
    std::vector<float> data;
};

Array read(const NpzReader & file, const std::string & name) {
    Array array;
    array.data = file.read_floats(file.get(name), array.header);
    return array;
}

std::vector<int64_t> read_ints(const NpzReader & file, const std::string & name) {
    NpyHeader header;
    return file.read_ints(file.get(name), header);
}

nlohmann::json read_meta(const NpzReader & file) {
    return nlohmann::json::parse(file.read_text(file.get("meta.json")));
}

// The largest distance of a row's sum from 1.
double row_error(const Array & array) {
    const auto K     = static_cast<size_t>(array.header.shape.back());
    double     worst = 0.0;
    for (size_t i = 0; i < array.data.size(); i += K) {
        double sum = 0.0;
        for (size_t k = 0; k < K; k++) {
            sum += static_cast<double>(array.data[i + k]);
        }
        worst = std::max(worst, std::abs(sum - 1.0));
    }
    return worst;
}

// Sequence, steps and confidence of a recording against those of the run.
void check_run(const NpzReader & file, const Generation & run, const RecordingBench & bench) {
    const auto S = static_cast<int64_t>(run.steps.size());
    const auto T = static_cast<int64_t>(run.sequence.size());
    REQUIRE(file.header(file.get("tokens")).shape == Shape{S + 1, T});
    const std::vector<int64_t> tokens     = read_ints(file, "tokens");
    const std::vector<int64_t> unmask     = read_ints(file, "unmask_step");
    const Array                confidence = read(file, "confidence");
    REQUIRE(confidence.header.shape == Shape{S, T});
    std::vector<int64_t> row(bench.prompt.begin(), bench.prompt.end());
    std::vector<int64_t> written(row.size(), -1);
    row.resize(static_cast<size_t>(T), bench.context->info().traits.is_diffusion() ? bench.vocab.mask() : -1);
    written.resize(static_cast<size_t>(T), -2);
    for (int64_t step = 0; step <= S; step++) {
        const auto begin = tokens.begin() + step * T;
        CHECK(std::vector<int64_t>(begin, begin + T) == row);
        if (step == S) {
            break;
        }
        std::vector<float> expected(static_cast<size_t>(T), NAN);
        const StepReport & report = run.steps[static_cast<size_t>(step)];
        for (const auto & [position, id] : report.committed) {
            row[static_cast<size_t>(position)]     = id;
            written[static_cast<size_t>(position)] = step;
        }
        for (const auto & [position, probability] : report.confidence) {
            expected[static_cast<size_t>(position)] = probability;
        }
        for (size_t i = 0; i < expected.size(); i++) {
            const float found = confidence.data[static_cast<size_t>(step * T) + i];
            CHECK((found == expected[i] || (std::isnan(found) && std::isnan(expected[i]))));
        }
    }
    CHECK(unmask == written);
}

std::string step_name(const char * folder, size_t step, int layer) {
    char text[64];
    std::snprintf(text, sizeof(text), "%s/step_%04zu/layer_%02d", folder, step, layer);
    return text;
}

} // namespace

TEST_CASE("recorder: every tap of every step, with every cache") {
    RandomModel model;
    model.n_head_kv = 2;
    for (DiffusionCache cache : {DiffusionCache::none, DiffusionCache::prefix, DiffusionCache::dual}) {
        CAPTURE(static_cast<int>(cache));
        RecordingBench bench(model);
        bench.params.cache     = cache;
        RecordParams record    = record_params(temp_dir() + "/run.npz");
        record.taps            = all_taps;
        const Generation plain = bench.run();
        const Generation run   = bench.record(record);
        CHECK(run.sequence == plain.sequence);

        const NpzReader file = NpzReader::open(record.path);
        check_run(file, run, bench);
        const auto    P = static_cast<int64_t>(bench.prompt.size());
        const int64_t T = P + 10;
        REQUIRE(run.steps.size() == 10);
        for (size_t step = 0; step < 10; step++) {
            const bool    full  = cache == DiffusionCache::none || step % 5 == 0;
            const int64_t first = full ? 0 : P + (step < 5 ? 0 : 5);
            const int64_t end   = full || cache == DiffusionCache::prefix ? T : first + 5;
            const int64_t Q     = end - first;
            const auto    rows  = read_ints(file, step_name("rows", step, 0).substr(0, 14));
            REQUIRE(static_cast<int64_t>(rows.size()) == Q);
            CHECK(rows.front() == first);
            CHECK(rows.back() == end - 1);
            for (int layer = 0; layer < 2; layer++) {
                const Array pattern = read(file, step_name("attn", step, layer));
                CHECK(pattern.header.shape == Shape{4, Q, T});
                CHECK(pattern.header.type == NpyType::f4);
                CHECK(row_error(pattern) < 1e-4);
                CHECK(file.header(file.get(step_name("scores", step, layer))).shape == Shape{4, Q, T});
                CHECK(file.header(file.get(step_name("q", step, layer))).shape == Shape{4, Q, 16});
                CHECK(file.header(file.get(step_name("k", step, layer))).shape == Shape{2, T, 16});
                CHECK(file.header(file.get(step_name("v_norm", step, layer))).shape == Shape{2, T});
                CHECK(file.header(file.get(step_name("resid", step, layer))).shape == Shape{Q, 64});
            }
        }
        CHECK(file.members().size() == 4 + 10 * (1 + 2 * 6));
        CHECK((std::filesystem::status(record.path).permissions() & std::filesystem::perms(0777)) ==
              std::filesystem::perms(0600));
        CHECK_FALSE(std::filesystem::exists(record.path + ".part"));
    }
}

TEST_CASE("recorder: of block-causal models, keys grow with the blocks and hidden ones get nothing") {
    for (const char * arch : {"sdar", "llada2", "fast-dllm-v2"}) {
        CAPTURE(std::string(arch));
        RandomModel model;
        model.arch         = arch;
        model.block_length = 4;
        RecordingBench bench(model);
        bench.params            = {};
        bench.params.n_predict  = 11;
        const auto       P      = static_cast<int64_t>(bench.prompt.size());
        const int64_t    T      = (P + 11 + 3) / 4 * 4; // whole blocks
        RecordParams     record = record_params(temp_dir() + "/run.npz");
        const Generation plain  = bench.run();
        const Generation run    = bench.record(record);
        CHECK(run.sequence == plain.sequence);
        CHECK(run.sequence.size() == static_cast<size_t>(P) + 11);

        const NpzReader file = NpzReader::open(record.path);
        CHECK(file.header(file.get("tokens")).shape == Shape{static_cast<int64_t>(run.steps.size()) + 1, T});
        int64_t n_keys_before = 0;
        for (size_t step = 0; step < run.steps.size(); step++) {
            const auto  rows    = read_ints(file, step_name("rows", step, 0).substr(0, 14));
            const Array pattern = read(file, step_name("attn", step, 1));
            const auto  Q = static_cast<int64_t>(rows.size()), K = pattern.header.shape[2];
            CHECK(pattern.header.shape == Shape{4, Q, K});
            CHECK(K == rows.back() + 1);
            CHECK(K % 4 == 0);
            CHECK(K >= n_keys_before);
            CHECK(row_error(pattern) < 1e-4);
            n_keys_before  = K;
            int64_t n_seen = 0;
            for (size_t at = 0; at < pattern.data.size(); at++) {
                const auto query = rows[at / static_cast<size_t>(K) % rows.size()];
                const auto key   = static_cast<int64_t>(at) % K;
                n_seen += key / 4 > query / 4 && pattern.data[at] != 0.0f ? 1 : 0;
            }
            CHECK(n_seen == 0);
        }
        CHECK(n_keys_before == T);
    }
}

TEST_CASE("recorder: scores and vectors belong to the pattern") {
    RecordingBench bench;
    RecordParams   record = record_params(temp_dir() + "/run.npz");
    record.taps           = all_taps;
    record.steps          = {3};
    record.layers         = {1};
    bench.record(record);
    const NpzReader file    = NpzReader::open(record.path);
    const Array     pattern = read(file, "attn/step_0003/layer_01");
    const Array     scores  = read(file, "scores/step_0003/layer_01");
    const Array     q       = read(file, "q/step_0003/layer_01");
    const Array     k       = read(file, "k/step_0003/layer_01");
    const auto      T       = static_cast<size_t>(pattern.header.shape[2]);
    for (size_t h = 0; h < 4; h++) {
        for (size_t i = 0; i < T; i++) {
            double sum = 0.0;
            for (size_t j = 0; j < T; j++) {
                const size_t at  = (h * T + i) * T + j;
                double       dot = 0.0;
                for (size_t d = 0; d < 16; d++) {
                    dot += static_cast<double>(q.data[(h * T + i) * 16 + d]) *
                           static_cast<double>(k.data[(h * T + j) * 16 + d]);
                }
                REQUIRE(static_cast<double>(scores.data[at]) == doctest::Approx(dot / 4.0).epsilon(1e-4));
                sum += std::exp(static_cast<double>(scores.data[at]));
            }
            const size_t at = (h * T + i) * T;
            REQUIRE(static_cast<double>(pattern.data[at]) ==
                    doctest::Approx(std::exp(static_cast<double>(scores.data[at])) / sum).epsilon(1e-4));
        }
    }
}

TEST_CASE("recorder: reductions are those of the unreduced recording") {
    RecordingBench    bench;
    const std::string dir = temp_dir();
    bench.record(record_params(dir + "/none.npz"));
    for (TapReduce reduce : {TapReduce::heads, TapReduce::received, TapReduce::regions}) {
        RecordParams record = record_params(dir + "/reduced.npz", reduce);
        record.force        = true;
        record.regions      = {{"a", {{0, 3}}}, {"b", {{3, 5}, {8, 9}}}};
        bench.record(record);
        const NpzReader none    = NpzReader::open(dir + "/none.npz");
        const NpzReader reduced = NpzReader::open(dir + "/reduced.npz");
        const Array     whole   = read(none, "attn/step_0002/layer_00");
        const Array     part    = read(reduced, "attn/step_0002/layer_00");
        const auto      T       = static_cast<size_t>(whole.header.shape[2]);
        const auto inside = [&](size_t region, size_t i) { return region == 0 ? i < 3 : (i >= 3 && i < 5) || i == 8; };
        std::vector<double> expected;
        if (reduce == TapReduce::heads) {
            CHECK(part.header.shape == Shape{static_cast<int64_t>(T), static_cast<int64_t>(T)});
            expected.resize(T * T);
        } else if (reduce == TapReduce::received) {
            CHECK(part.header.shape == Shape{4, static_cast<int64_t>(T)});
            expected.resize(4 * T);
        } else {
            CHECK(part.header.shape == Shape{2, 2});
            expected.resize(4);
        }
        for (size_t h = 0; h < 4; h++) {
            for (size_t i = 0; i < T; i++) {
                for (size_t j = 0; j < T; j++) {
                    const auto value = static_cast<double>(whole.data[(h * T + i) * T + j]);
                    if (reduce == TapReduce::heads) {
                        expected[i * T + j] += value / 4;
                    } else if (reduce == TapReduce::received) {
                        expected[h * T + j] += value / static_cast<double>(T);
                    } else {
                        for (size_t r = 0; r < 4; r++) {
                            expected[r] += inside(r / 2, i) && inside(r % 2, j) ? value / 4 : 0.0;
                        }
                    }
                }
            }
        }
        REQUIRE(part.data.size() == expected.size());
        for (size_t i = 0; i < expected.size(); i++) {
            CHECK(static_cast<double>(part.data[i]) == doctest::Approx(expected[i]).epsilon(1e-5));
        }
    }
}

TEST_CASE("recorder: chosen layers, heads, steps and rows") {
    RecordingBench bench;
    bench.params.cache       = DiffusionCache::dual;
    const std::string dir    = temp_dir();
    RecordParams      record = record_params(dir + "/all.npz");
    record.taps              = all_taps;
    bench.record(record);
    const auto P  = static_cast<int32_t>(bench.prompt.size());
    record.path   = dir + "/some.npz";
    record.layers = {1};
    record.heads  = {3, 1};
    record.steps  = {1, 0, 6, 9};
    record.rows   = {P + 6, 2, P + 1};
    bench.record(record);
    const NpzReader all  = NpzReader::open(dir + "/all.npz");
    const NpzReader some = NpzReader::open(dir + "/some.npz");
    CHECK(read_ints(some, "rows/step_0000") == std::vector<int64_t>{2, P + 1, P + 6}); // a full pass
    CHECK(read_ints(some, "rows/step_0001") == std::vector<int64_t>{P + 1});           // the first block
    CHECK(read_ints(some, "rows/step_0006") == std::vector<int64_t>{P + 6});           // the second
    CHECK(some.find("rows/step_0002") == nullptr);
    CHECK(some.find("attn/step_0001/layer_00") == nullptr);
    CHECK(some.members().size() == 4 + 4 * (1 + 6));
    const auto check = [&](const char * folder, int64_t width) {
        const Array whole = read(all, std::string(folder) + "/step_0006/layer_01");
        const Array part  = read(some, std::string(folder) + "/step_0006/layer_01");
        REQUIRE(part.header.shape == Shape{2, 1, width});
        const int64_t Q = whole.header.shape[1];
        for (int64_t i = 0; i < 2; i++) {
            for (int64_t k = 0; k < width; k++) {
                const int64_t head = i == 0 ? 1 : 3;
                CHECK(part.data[static_cast<size_t>(i * width + k)] ==
                      whole.data[static_cast<size_t>((head * Q + 1) * width + k)]);
            }
        }
    };
    check("attn", P + 10);
    check("scores", P + 10);
    check("q", 16);
    CHECK(read(some, "resid/step_0006/layer_01").header.shape == Shape{1, 64});
    CHECK(read(some, "k/step_0006/layer_01").data == read(all, "k/step_0006/layer_01").data);

    record.path = dir + "/none-there.npz";
    record.rows = {0};
    bench.record(record);
    const NpzReader empty = NpzReader::open(record.path);
    CHECK(read_ints(empty, "rows/step_0001").empty());
    CHECK(empty.find("attn/step_0001/layer_01") == nullptr);
    CHECK(empty.find("attn/step_0000/layer_01") != nullptr);
}

TEST_CASE("recorder: f16, guidance, and one token after the other") {
    const std::string dir = temp_dir();
    RecordingBench    bench(RandomModel{}, 2);
    bench.params.cfg_scale  = 1.5f;
    const Generation guided = bench.record(record_params(dir + "/cfg.npz", TapReduce::none, RecordType::f16));
    const NpzReader  cfg    = NpzReader::open(dir + "/cfg.npz");
    check_run(cfg, guided, bench);
    RecordingBench single; // the first stream sees what a run without guidance sees in its first step
    single.record(record_params(dir + "/plain.npz"));
    const Array half  = read(cfg, "attn/step_0000/layer_01");
    const Array plain = read(NpzReader::open(dir + "/plain.npz"), "attn/step_0000/layer_01");
    CHECK(half.header.type == NpyType::f2);
    CHECK(row_error(half) < 1e-2);
    REQUIRE(half.data.size() == plain.data.size());
    for (size_t i = 0; i < half.data.size(); i++) {
        REQUIRE(half.data[i] == doctest::Approx(static_cast<double>(plain.data[i])).epsilon(1e-3));
    }

    RandomModel model;
    model.arch = "llama";
    RecordingBench   causal(model);
    const auto       P   = static_cast<int64_t>(causal.prompt.size());
    const Generation run = causal.record(record_params(dir + "/ar.npz"));
    const NpzReader  ar  = NpzReader::open(dir + "/ar.npz");
    check_run(ar, run, causal);
    REQUIRE(run.steps.size() == 10);
    CHECK(read(ar, "attn/step_0000/layer_00").header.shape == Shape{4, P, P});
    CHECK(read(ar, "attn/step_0004/layer_01").header.shape == Shape{4, 1, P + 4});
    CHECK(row_error(read(ar, "attn/step_0000/layer_00")) < 1e-4);
    CHECK(row_error(read(ar, "attn/step_0009/layer_01")) < 1e-4);
    CHECK(read_ints(ar, "rows/step_0004") == std::vector<int64_t>{P + 3});
}

TEST_CASE("recorder: one pass without a generation") {
    RecordingBench bench;
    RecordedRun    recorded   = bench.recorded_run();
    recorded.single_pass      = true;
    const RecordParams record = record_params(temp_dir() + "/run.npz");
    Recorder           recorder(record, bench.context->info(), bench.vocab, recorded);
    ForwardRequest     request;
    request.tokens = bench.prompt;
    request.rows   = {0};
    recorder.prepare(0, request);
    bench.context->forward(request);
    recorder.end_step({}, bench.prompt);
    recorder.finish();
    const NpzReader file = NpzReader::open(record.path);
    const auto      P    = static_cast<int64_t>(bench.prompt.size());
    CHECK(file.header(file.get("attn/step_0000/layer_01")).shape == Shape{4, P, P});
    CHECK(file.header(file.get("tokens")).shape == Shape{2, P});
    CHECK(read_meta(file)["complete"] == true);
    CHECK(recorder.predicted_size() >= file.size());
}

TEST_CASE("recorder: regions of a run that ended early end with its sequence") {
    using Spans = std::vector<std::pair<int32_t, int32_t>>;
    RandomModel model;
    model.arch = "llama";
    RecordingBench bench(model);
    const auto     P      = static_cast<int32_t>(bench.prompt.size());
    RecordParams   record = record_params(temp_dir() + "/run.npz");
    record.regions        = {{"prompt", {{0, P}}}, {"answer", {{P, P + 10}}}, {"late", {{0, 1}, {P + 8, P + 9}}}};
    Recorder       recorder(record, bench.context->info(), bench.vocab, bench.recorded_run());
    GenerateParams params = bench.params;
    params.on_step        = [](const StepReport & step, const std::vector<int32_t> &) { return step.step < 2; };
    recorder.attach(params);
    generate(*bench.context, bench.prompt, params);
    recorder.finish();
    const NpzReader      file = NpzReader::open(record.path);
    const nlohmann::json meta = read_meta(file);
    const int32_t        T    = meta["n_positions"];
    REQUIRE(T > P);
    REQUIRE(T < P + 8);
    CHECK(meta["regions"][0]["spans"] == Spans{{0, P}});
    CHECK(meta["regions"][1]["spans"] == Spans{{P, T}});
    CHECK(meta["regions"][2]["spans"] == Spans{{0, 1}, {T, T}});
    CHECK(recorder.predicted_size() >= file.size());
}

TEST_CASE("recorder: meta.json tells what the run was") {
    RecordingBench bench;
    bench.params.seed         = 18446744073709551615ull;
    RecordParams record       = record_params(temp_dir() + "/run.npz", TapReduce::heads, RecordType::f16);
    record.heads              = {1, 2};
    record.steps              = {0, 4};
    record.regions            = {{"start", {{0, 2}, {3, 4}}}};
    const Generation     run  = bench.record(record);
    const NpzReader      file = NpzReader::open(record.path);
    const nlohmann::json meta = read_meta(file);
    CHECK(meta["format_version"] == 1);
    CHECK(meta["complete"] == true);
    CHECK(meta["model"]["arch"] == "llada");
    CHECK(meta["attention"] == "full");
    CHECK(meta["settings"]["block_length"] == 5);
    CHECK(meta["seed"] == 18446744073709551615ull);
    CHECK(meta["prompt"] == "Caf\xc3\xa9 \\ ");
    CHECK(meta["n_prompt"] == bench.prompt.size());
    CHECK(meta["n_steps"] == 10);
    CHECK(meta["recorded"]["taps"] == nlohmann::json{"attn"});
    CHECK(meta["recorded"]["reduce"] == "heads");
    CHECK(meta["recorded"]["dtype"] == "f16");
    CHECK(meta["recorded"]["layers"] == std::vector<int>{0, 1});
    CHECK(meta["recorded"]["heads"] == std::vector<int>{1, 2});
    CHECK(meta["recorded"]["rows"] == "all");
    CHECK(meta["recorded"]["steps"] == std::vector<int>{0, 4});
    CHECK(meta["regions"] == nlohmann::json::parse(R"([{"name": "start", "spans": [[0, 2], [3, 4]]}])"));
    REQUIRE(meta["pieces"].size() == run.sequence.size());
    for (size_t i = 0; i < run.sequence.size(); i++) {
        CHECK(meta["pieces"][i] == piece_text(bench.vocab.piece(run.sequence[i])));
    }
    CHECK(piece_text("a\\\xc3\xa9\xc3\xff\n") == "a\\\\\xc3\xa9\\xc3\\xff\n");
}

TEST_CASE("recorder: the predicted size is an upper bound, and a close one for fixed schedules") {
    const std::string dir   = temp_dir();
    const auto        check = [&](RecordingBench & bench, RecordParams record, bool fixed) {
        record.force = true;
        record.path  = dir + "/run.npz";
        Recorder       recorder(record, bench.context->info(), bench.vocab, bench.recorded_run());
        GenerateParams attached = bench.params;
        recorder.attach(attached);
        generate(*bench.context, bench.prompt, attached);
        recorder.finish();
        const uint64_t real = std::filesystem::file_size(record.path);
        CAPTURE(real);
        CAPTURE(recorder.predicted_size());
        CHECK(recorder.predicted_size() >= real);
        if (fixed) {
            CHECK(static_cast<double>(recorder.predicted_size()) <= static_cast<double>(real) * 1.02);
        }
    };
    RandomModel dream;
    dream.arch = "dream";
    RandomModel llama;
    llama.arch = "llama";
    RecordingBench    diffusion, shifted(dream), causal(llama);
    const std::string ignored;
    for (TapReduce reduce : {TapReduce::none, TapReduce::heads, TapReduce::received}) {
        RecordParams record = record_params("", reduce, RecordType::f16);
        for (DiffusionCache cache : {DiffusionCache::none, DiffusionCache::prefix, DiffusionCache::dual}) {
            diffusion.params.cache = shifted.params.cache = cache;
            check(diffusion, record, true);
            check(shifted, record, true);
            record.rows = {1, 17};
            record.taps = all_taps;
            check(diffusion, record, true);
            record.rows                = {};
            record.taps                = {Tap::pattern};
            record.steps               = {0, 3, 7};
            diffusion.params.threshold = 0.004f;
            check(diffusion, record, false);
            record.steps = {};
            check(diffusion, record, false);
            diffusion.params.threshold.reset();
        }
        check(causal, record, true);
    }
}

TEST_CASE("recorder: too large, and what would fit") {
    RecordingBench bench;
    const auto     refused = [&](uint64_t limit, RecordParams record, const std::string & words) {
        record.path     = temp_dir() + "/run.npz";
        record.max_size = limit;
        CAPTURE(words);
        CHECK_THROWS_WITH_AS(bench.record(record), doctest::Contains(words.c_str()), Error);
        CHECK_FALSE(std::filesystem::exists(record.path));
        CHECK_FALSE(std::filesystem::exists(record.path + ".part"));
    };
    const auto size = [&](const RecordParams & record) {
        RecordParams there = record;
        there.path         = temp_dir() + "/run.npz";
        return Recorder(there, bench.context->info(), bench.vocab, bench.recorded_run()).predicted_size();
    };
    RecordParams none     = record_params("");
    RecordParams heads    = record_params("", TapReduce::heads);
    RecordParams received = record_params("", TapReduce::received);
    RecordParams one      = received;
    RecordParams q        = none;
    one.layers            = {0};
    q.taps                = {Tap::rot_q};
    const uint64_t bytes  = size(none);
    REQUIRE(size(heads) < bytes);
    REQUIRE(size(received) < size(heads));
    refused(bytes - 1, none, std::to_string(bytes));
    refused(bytes - 1, none, "`record.max_size`");
    refused(size(heads), none, "`record.reduce` heads would need");
    refused(size(received), none, "`record.reduce` received would need");
    refused(size(received) - 1, received, "`record.layers` with at most 1 of the 2 layers");
    refused(size(one) - 1, received, "`record.steps` with at most ");
    refused(size(q) - 1, q, "`record.layers` with at most 1 of the 2 layers");
    refused(100, none, "even one layer, one step or the strongest reduction would not fit");
    none.max_size = bytes;
    none.path     = temp_dir() + "/run.npz";
    bench.record(none);
}

TEST_CASE("recorder: numpy reads every member") {
    if (numpy_python().empty()) {
        MESSAGE("no python3 with numpy, skipped");
        return;
    }
    RecordingBench bench;
    RecordParams   record = record_params(temp_dir() + "/run.npz", TapReduce::none, RecordType::f16);
    record.taps           = all_taps;
    bench.record(record);
    run_python(R"(
import sys, json, zipfile, numpy as np
f = np.load(sys.argv[1])
assert zipfile.ZipFile(sys.argv[1]).testzip() is None
meta = json.loads(f['meta.json'])
S, T, P = meta['n_steps'], meta['n_positions'], meta['n_prompt']
assert f['tokens'].shape == (S + 1, T) and f['tokens'].dtype == np.int32
assert (f['unmask_step'][:P] == -1).all() and sorted(f['unmask_step'][P:]) == list(range(S))
assert f['confidence'].shape == (S, T) and f['confidence'].dtype == np.float32
assert np.isnan(f['confidence'][:, :P]).all() and not np.isnan(f['confidence'][0, P])
arrays = {name: f[name] for name in f.files if name != 'meta.json'}
assert len(arrays) == 3 + S * (1 + 6 * 2)
for s in range(S):
    assert (arrays[f'rows/step_{s:04}'] == np.arange(T)).all()
    for l in range(2):
        a = arrays[f'attn/step_{s:04}/layer_{l:02}']
        assert a.dtype == np.float16 and a.shape == (4, T, T)
        assert np.abs(a.astype(np.float32).sum(-1) - 1).max() < 1e-2
)",
               {record.path});
}
