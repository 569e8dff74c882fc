// llama-attention info and cat, as a user runs them.

#include "io/npz-reader.h"
#include "io/npz-writer.h"
#include "observe/record-member.h"
#include "support/cli.h"
#include "support/gguf-bytes.h"
#include "support/paths.h"
#include "support/recording.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <sys/resource.h>

using namespace buoy;
using namespace buoy::test;

namespace {

ProgramResult attention(const std::vector<std::string> & args) {
    ProgramSpec spec;
    spec.name = "llama-attention";
    spec.args = args;
    return run_program(spec);
}

// One recording for all tests: 10 steps of a model with two layers and four heads, layer 1 and steps 0-3 and 9 kept.
const std::string & recording() {
    static const std::string path = [] {
        RecordingBench bench;
        bench.params.cache  = DiffusionCache::dual;
        RecordParams record = record_params(temp_dir() + "/run.npz", TapReduce::none, RecordType::f16);
        record.taps         = {Tap::pattern, Tap::resid_post};
        record.layers       = {1};
        record.steps        = {0, 1, 2, 3, 9};
        record.regions      = {{"start", {{0, 2}, {3, 4}}}};
        bench.record(record);
        return record.path;
    }();
    return path;
}

std::vector<std::vector<std::string>> parse_csv(const std::string & text) {
    std::vector<std::vector<std::string>> lines;
    std::istringstream                    in(text);
    for (std::string line; std::getline(in, line);) {
        std::istringstream cells(line);
        lines.emplace_back();
        for (std::string cell; std::getline(cells, cell, ',');) {
            lines.back().push_back(cell);
        }
    }
    return lines;
}

} // namespace

TEST_CASE("llama-attention info: what a recording holds") {
    const ProgramResult text = attention({"info", recording()});
    CAPTURE(text.out);
    CAPTURE(text.err);
    CHECK(text.code == 0);
    CHECK(text.err == "");
    for (const char * part :
         {"complete", "llada", "full attention, 2 layers, 4 heads", "'Caf\xc3\xa9 \\ '", "10 steps, 18 positions",
          "attn, resid; reduced to none; f16", "0-3, 9", "start [0, 2)+[3, 4)", "float16", "[4, 5-18, 18]"}) {
        CAPTURE(part);
        CHECK(contains(text.out, part));
    }
    const ProgramResult  json = attention({"info", recording(), "--json"});
    const nlohmann::json info = nlohmann::json::parse(json.out, nullptr, false);
    REQUIRE(info.is_object());
    CHECK(info["unfinished"] == false);
    CHECK(info["meta"]["complete"] == true);
    CHECK(info["meta"]["recorded"]["steps"] == std::vector<int>{0, 1, 2, 3, 9});
    const auto & members = info["members"];
    const auto attn = std::find_if(members.begin(), members.end(), [](const auto & m) { return m["name"] == "attn"; });
    REQUIRE(attn != members.end());
    CHECK((*attn)["count"] == 5);
    CHECK((*attn)["dtype"] == "float16");
    CHECK((*attn)["shape_max"] == std::vector<int>{4, 18, 18});
}

TEST_CASE("llama-attention cat: members as CSV") {
    const NpzReader          file = NpzReader::open(recording());
    NpyHeader                header;
    const std::vector<float> pattern = file.read_floats(file.get("attn/step_0001/layer_01"), header);
    REQUIRE(header.shape == std::vector<int64_t>{4, 5, 18});

    const ProgramResult all = attention({"cat", recording(), "attn/step_0001/layer_01"});
    CHECK(all.code == 0);
    const auto lines = parse_csv(all.out);
    REQUIRE(lines.size() == 20);
    for (size_t i = 0; i < lines.size(); i++) {
        REQUIRE(lines[i].size() == 19);
        CHECK(lines[i][0] == std::to_string(i / 5)); // the head
        for (size_t k = 0; k < 18; k++) {
            // f16 has 11 bits
            CHECK(std::stod(lines[i][k + 1]) ==
                  doctest::Approx(static_cast<double>(pattern[i * 18 + k])).epsilon(1e-4));
        }
    }
    const auto head = parse_csv(attention({"cat", recording(), "attn/step_0001/layer_01.npy", "--index", "2"}).out);
    REQUIRE(head.size() == 5);
    for (size_t i = 0; i < 5; i++) {
        CHECK(head[i] == std::vector<std::string>(lines[10 + i].begin() + 1, lines[10 + i].end()));
    }
    CHECK(parse_csv(attention({"cat", recording(), "tokens"}).out).size() == 11);
    CHECK(attention({"cat", recording(), "rows/step_0001"}).out == "8\n9\n10\n11\n12\n");
    CHECK(contains(attention({"cat", recording(), "confidence"}).out, "nan"));
    const nlohmann::json meta = nlohmann::json::parse(attention({"cat", recording(), "meta.json"}).out, nullptr, false);
    CHECK(meta["format"] == "buoy-recording");
}

TEST_CASE("llama-attention: what is refused") {
    check_refused(attention({"cat", recording(), "attn/step_0005/layer_01"}), "attn/step_0005/layer_01");
    check_refused(attention({"cat", recording(), "attn/step_0001/layer_01", "--index", "4"}), "0 to 3");
    check_refused(attention({"cat", recording(), "tokens", "--index", "0"}), "--index");
    check_refused(attention({"cat", recording(), "tokens", "--index", "x"}), "--index");
    check_refused(attention({"cat", recording()}), "missing: MEMBER");
    check_refused(attention({"info"}), "missing: RUN.npz");
    check_refused(attention({"info", "/no/such/file"}), "/no/such/file");
    check_refused(attention({"info", temp_dir()}), "directory");
    check_refused(attention({"unknown", recording()}), "--help");
    check_refused(attention({"info", write_file(temp_dir(), "x.npz", "PK")}), "x.npz");

    const std::string path = temp_dir() + "/plain.npz"; // an archive, but no recording
    {
        PendingFile file(path, false);
        NpzWriter   npz(file);
        npz.add("a.npy", array_member({1}, std::vector<int32_t>{1}));
        npz.finish();
        file.commit();
    }
    check_refused(attention({"info", path}), "not a recording");
    CHECK(attention({"cat", path, "a"}).out == "1\n");
}

TEST_CASE("llama-attention: an unfinished recording") {
    const std::string   path = write_file(temp_dir(), "run.npz.part", "PK\x03\x04 and some more");
    const ProgramResult left = attention({"info", path});
    CHECK(left.code == 0);
    CHECK(contains(left.out, "an unfinished recording, left by a run that was killed"));
    CHECK(nlohmann::json::parse(attention({"info", path, "--json"}).out, nullptr, false)["unfinished"] == true);
    check_refused(attention({"cat", path, "tokens"}), "unfinished");
    for (const char * begin : {"", "PK"}) { // killed before its first bytes were written
        const ProgramResult early = attention({"info", write_file(temp_dir(), "early.npz.part", begin)});
        CHECK(early.code == 0);
        CHECK(contains(early.out, "an unfinished recording, left by a run that was killed"));
    }
    check_refused(attention({"info", write_file(temp_dir(), "text.part", "text")}), "text.part");
    check_refused(attention({"info", write_file(temp_dir(), "empty.npz", "")}), "empty.npz");

    RecordingBench     bench;
    const RecordParams record = record_params(temp_dir() + "/now.npz");
    Recorder           recorder(record, bench.context->info(), bench.vocab, bench.recorded_run());
    GenerateParams     params = bench.params;
    recorder.attach(params);
    generate(*bench.context, bench.prompt, params);
    ProgramResult now; // the writer's thread may take a moment for its first bytes
    for (int i = 0; i < 100 && now.out.empty(); i++) {
        now = attention({"info", record.path + ".part"});
    }
    CHECK(contains(now.out, "an unfinished recording, being written now"));
}

TEST_CASE("llama-attention: a figure never replaces a recording") {
    const std::string dir   = temp_dir();
    const std::string input = dir + "/run";
    std::filesystem::copy_file(recording(), input);
    std::filesystem::create_hard_link(input, dir + "/link");
    const auto size = std::filesystem::file_size(input);
    for (const char * flag : {"--svg", "--png"}) {
        check_refused(attention({"absorption", input, flag, input}), "would overwrite a recording");
        check_refused(attention({"absorption", input, flag, dir + "/./run"}), "would overwrite a recording");
        check_refused(attention({"absorption", recording(), input, flag, dir + "/link"}),
                      "would overwrite a recording");
        check_refused(attention({"absorption", input, flag, dir + "/other.npz"}), "other.npz");
    }
    check_refused(attention({"absorption", input, "--svg", dir + "/figure", "--png", dir + "/figure"}),
                  "the same file");
    CHECK_FALSE(std::filesystem::exists(dir + "/figure"));
    CHECK(std::filesystem::file_size(input) == size);
    CHECK_FALSE(std::filesystem::exists(dir + "/other.npz"));
    CHECK(attention({"absorption", input, "--svg", dir + "/figure.svg"}).code == 0);
    CHECK(attention({"absorption", input, "--svg", dir + "/figure.svg"}).code == 0); // a figure may be replaced
}

TEST_CASE("llama-attention: a limit on file sizes") {
    const std::string dir = temp_dir();
    ProgramSpec       spec;
    spec.name = "llama-attention";
    spec.args = {"absorption", recording(), "--svg", dir + "/figure.svg"};
    rlimit kept{};
    REQUIRE(getrlimit(RLIMIT_FSIZE, &kept) == 0);
    rlimit small   = kept;
    small.rlim_cur = 1000;
    setrlimit(RLIMIT_FSIZE, &small);
    Program program(spec); // has the limit from us
    setrlimit(RLIMIT_FSIZE, &kept);
    const ProgramResult result = program.finish();
    CHECK(result.code == 2);
    CHECK(result.is_one_line());
    CHECK(contains(result.err, "figure.svg"));
    CHECK(std::filesystem::is_empty(dir));
}

TEST_CASE("llama-attention: help, version, closed and full standard output") {
    const ProgramResult help = attention({"--help"});
    CHECK(help.code == 0);
    CHECK(contains(help.out, "info"));
    CHECK(contains(help.out, "cat"));
    CHECK(contains(attention({"cat", "--help"}).out, "--index"));
    CHECK(contains(attention({"--version"}).out, "llama-attention "));
    ProgramSpec spec;
    spec.name                = "llama-attention";
    spec.args                = {"cat", recording(), "attn/step_0000/layer_01"};
    spec.output              = "/dev/full";
    const ProgramResult full = run_program(spec);
    CHECK(full.code == 2);
    CHECK(full.is_one_line());
    spec.output                = "";
    spec.stdout_closed         = true;
    const ProgramResult closed = run_program(spec);
    CHECK(closed.code == 2);
    CHECK(closed.is_one_line());
}
