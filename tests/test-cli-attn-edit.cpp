// Edits of the attention through llama-diffusion-cli.

#include "support/attn-cli.h"
#include "support/gguf-bytes.h"
#include "support/hf-dir.h"
#include "support/paths.h"
#include "support/tiny-gemma.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <thread>

using namespace buoy;
using namespace buoy::test;
using Json = nlohmann::json;

namespace {

Args base(const std::string & arch = "llada") {
    return Args{"-m", layered_model(arch), "--raw", "-p", "a short prompt", "-n", "8", "-s", "7", "--ignore-eos"} +
           exact_flags;
}

} // namespace

TEST_CASE("cli edit: a dropped column is exactly zero and rows still sum to one, for every cache") {
    for (const char * cache : {"none", "prefix", "dual"}) {
        const std::string path = temp_dir() + "/run.npz";
        attn_json(base() + Args{"--diffusion-block-length", "4", "--diffusion-cache", cache, "--attn-edit",
                                "drop keys=0", "--attn-dump", path, "--attn-reduce", "none", "--attn-dtype", "f32"});
        const NpzReader file = NpzReader::open(path);
        for (int step = 0; step < 8; step++) {
            for (int layer = 0; layer < 3; layer++) {
                const Array  pattern = read_array(file, attn_name(step, layer));
                const size_t K       = static_cast<size_t>(pattern.shape[2]);
                double       first   = 0.0;
                for (size_t at = 0; at < pattern.values.size(); at += K) {
                    first = std::max(first, std::abs(static_cast<double>(pattern.values[at])));
                }
                CHECK(first == 0.0);
                CHECK(worst_row_sum(pattern) <= 1e-5);
            }
        }
        CHECK(read_meta(file)["edits"] == Json({"drop keys=0"}));
    }
}

TEST_CASE("cli edit: only the layers, heads, steps and queries named are changed") {
    const std::string dir     = temp_dir();
    const Args        dumping = {"--attn-reduce", "none", "--attn-dtype", "f32", "--attn-layers", "2", "--attn-dump"};
    attn_json(base() + dumping + Args{dir + "/plain.npz"});
    attn_json(base() + dumping +
              Args{dir + "/edited.npz", "--attn-edit", "bias keys=3-4 layers=2 heads=1 steps=0 queries=5 +2"});
    const NpzReader plain_file  = NpzReader::open(dir + "/plain.npz"),
                    edited_file = NpzReader::open(dir + "/edited.npz");
    const Array plain = read_array(plain_file, attn_name(0, 2)), edited = read_array(edited_file, attn_name(0, 2));
    const auto  Q = static_cast<size_t>(plain.shape[1]), K = static_cast<size_t>(plain.shape[2]);
    for (size_t row = 0; row < plain.values.size() / K; row++) {
        const float * before = plain.values.data() + row * K;
        const float * after  = edited.values.data() + row * K;
        if (row != 1 * Q + 5) {
            CHECK(std::equal(before, before + K, after));
            continue;
        }
        double sum = 0.0; // exp(2) times the weight of both keys, over the new sum
        for (size_t k = 0; k < K; k++) {
            sum += static_cast<double>(before[k]) * (k == 3 || k == 4 ? std::exp(2.0) : 1.0);
        }
        for (size_t k = 0; k < K; k++) {
            const double expected = static_cast<double>(before[k]) * (k == 3 || k == 4 ? std::exp(2.0) : 1.0) / sum;
            CHECK(std::abs(static_cast<double>(after[k]) - expected) <= 1e-6);
        }
    }
}

TEST_CASE("cli edit: without effect the text is the same, and that is told") {
    const Json plain = cli_json(base());
    for (const char * spec : {"bias keys=0 +0", "drop keys=sinks:1000"}) {
        const ProgramResult result = cli(base() + Args{"--json", "--attn-edit", spec});
        CHECK(result.code == 0);
        CHECK(result.is_one_line());
        CHECK(contains(result.err, std::string("the edit '") + spec + "' changed nothing"));
        CHECK(contains(result.err, "matched nothing") == contains(spec, "sinks"));
        const Json json = Json::parse(result.out);
        CHECK(json["tokens"] == plain["tokens"]);
        CHECK(json["steps"] == plain["steps"]);
        CHECK(json["edit"]["applied"][0] == Json({{"places", 0}, {"keys_mean", nullptr}}));
    }
}

TEST_CASE("cli edit: without effect hardly a bit changes by default either, where flash attention is automatic") {
    const Args args = {"-m", layered_model("llada"), "--raw", "-p", "a short prompt", "-n", "8", "-s", "7"};
    const Json off  = cli_json(args + Args{"-fa", "off"});
    for (const char * spec : {"bias keys=0 +0", "drop keys=sinks:1000", "bias keys=anchors@7 +4"}) {
        CAPTURE(std::string(spec));
        const ProgramResult result = cli(args + Args{"--json", "--attn-edit-compare", "--attn-edit", spec});
        CHECK(result.code == 0);
        const Json json = Json::parse(result.out);
        CHECK(json["settings"]["flash_attn"] == "off");
        CHECK(json["steps"] == off["steps"]);
        CHECK(json["edit"]["confidence"]["scored"] > 0);
        const auto change = json["edit"]["confidence"]["mean_abs_change"].get<double>();
        CHECK(change <= (contains(spec, "+0") ? 0.0 : 1e-8));
    }
    CHECK(cli_json(args + Args{"-fa", "on", "--attn-edit", "drop keys=0"})["settings"]["flash_attn"] == "on");
}

TEST_CASE("cli edit: what is reported is what two runs show") {
    for (const char * arch : {"llada", "llama"}) {
        const Args edit     = {"--attn-edit", "bias keys=3-5 queries=6- +9", "--attn-edit",
                               "bias keys=anchors:0@0 queries=6- +4.0"}; // those above the mean, so there are some
        const Json plain    = cli_json(base(arch));
        const Json edited   = cli_json(base(arch) + edit);
        const Json compared = cli_json(base(arch) + edit + Args{"--attn-edit-compare"});
        CHECK(compared["text"] == edited["text"]);
        CHECK(compared["steps"] == edited["steps"]);
        CHECK_FALSE(edited["edit"].contains("unedited"));
        const Json & report = compared["edit"];
        CHECK(report["specs"] == Json({edit[1], edit[3]}));
        CHECK(report["applied"] == edited["edit"]["applied"]);
        CHECK(report["applied"][0] == Json({{"places", 24}, {"keys_mean", 3.0}})); // 8 steps, 3 layers
        CHECK(report["applied"][1]["places"] == 21);                               // not in the step that finds them
        CHECK(report["unedited"]["text"] == plain["text"]);
        CHECK(report["unedited"]["tokens"] == plain["tokens"]);
        int64_t n_changed = 0, first = -1;
        for (size_t i = 0; i < 8; i++) {
            if (plain["tokens"][i] != edited["tokens"][i]) {
                first = first < 0 ? static_cast<int64_t>(plain["prompt_tokens"].size() + i) : first;
                n_changed++;
            }
        }
        CHECK(report["changed_tokens"] == n_changed);
        CHECK(report["first_changed_position"] == (first < 0 ? Json(nullptr) : Json(first)));
        CHECK(report["same_text"] == (plain["text"] == edited["text"]));
        CHECK(report["confidence"]["scored"] > 0);
        CHECK(report["confidence"]["mean_abs_change"] > 0.0);
    }
}

TEST_CASE("cli edit: a comparison shows both texts and a summary, standard output has the edited one") {
    const Args          edit   = {"--attn-edit", "drop keys=user queries=answer"};
    const ProgramResult result = cli(base() + edit + Args{"--attn-edit-compare"});
    CHECK(result.code == 0);
    CHECK(result.out == cli(base() + edit).out);
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 3);
    CHECK(contains(result.err, "the edits changed "));
    CHECK(contains(result.err, "mean absolute change"));
}

TEST_CASE("cli edit: an answer that was stopped is not compared") {
    for (const bool json : {false, true}) {
        const std::string path = temp_dir() + "/run.npz";
        ProgramSpec       spec;
        spec.name = "llama-diffusion-cli";
        spec.args = base() + Args{"-n",          "120", "-t", "1", "--attn-edit", "drop keys=3", "--attn-edit-compare",
                                  "--attn-dump", path};
        if (json) {
            spec.args.push_back("--json");
        }
        Program         program(spec);
        std::error_code missing;
        bool            grows = false; // in the edited run only
        for (int i = 0; i < 50000 && !grows; i++) {
            const auto size = std::filesystem::file_size(path + ".part", missing);
            grows           = !missing && size > 0;
            std::this_thread::sleep_for(std::chrono::milliseconds(grows ? 0 : 1));
        }
        program.send(SIGINT);
        REQUIRE(grows);
        const ProgramResult result = program.finish();
        CAPTURE(result.err);
        CHECK(result.code == 130);
        CHECK_FALSE(contains(result.err, "the edits changed"));
        if (json) {
            const Json edit = Json::parse(result.out)["edit"];
            CHECK(edit.contains("applied"));
            CHECK_FALSE(edit.contains("unedited"));
        }
    }
}

TEST_CASE("cli edit: sinks, found in the pass, are what the unedited recording shows") {
    const std::string dir = temp_dir();
    const Args        one = {"--diffusion-steps", "1",   "--attn-layers", "0", "--attn-reduce", "none",
                             "--attn-dtype",      "f32", "--attn-dump"};
    attn_json(base() + one + Args{dir + "/plain.npz"});
    attn_json(base() + one + Args{dir + "/edited.npz", "--attn-edit", "drop keys=sinks:1 layers=0"});
    const Array         plain  = read_array(NpzReader::open(dir + "/plain.npz"), attn_name(0, 0));
    const Array         edited = read_array(NpzReader::open(dir + "/edited.npz"), attn_name(0, 0));
    const auto          K      = static_cast<size_t>(plain.shape[2]);
    std::vector<double> column(K), left(K);
    double              mean = 0.0, square = 0.0;
    const double        n_rows = static_cast<double>(plain.values.size() / K);
    for (size_t i = 0; i < plain.values.size(); i++) {
        column[i % K] += static_cast<double>(plain.values[i]) / n_rows;
        left[i % K] += static_cast<double>(edited.values[i]);
    }
    for (double value : column) {
        mean += value / static_cast<double>(K);
    }
    for (double value : column) {
        square += (value - mean) * (value - mean) / static_cast<double>(K);
    }
    int n_sinks = 0;
    for (size_t k = 0; k < K; k++) {
        const bool sink = column[k] > mean + std::sqrt(square);
        n_sinks += sink ? 1 : 0;
        CHECK((left[k] == 0.0) == sink);
    }
    CHECK(n_sinks > 0);
}

TEST_CASE("cli edit: a causal model's first token needs itself") {
    const ProgramResult result = cli(base("llama") + Args{"--attn-edit", "drop keys=0"});
    check_refused(result, "queries=");
    CHECK(contains(result.err, "position 0"));
    const std::string path = temp_dir() + "/run.npz";
    attn_json(base("llama") + Args{"--attn-edit", "drop keys=0 queries=1-", "--attn-dump", path, "--attn-reduce",
                                   "none", "--attn-dtype", "f32"});
    const Array pattern = read_array(NpzReader::open(path), attn_name(0, 1));
    const auto  K       = static_cast<size_t>(pattern.shape[2]);
    CHECK(pattern.values[0] == 1.0f);
    CHECK(pattern.values[K] == 0.0f);
    CHECK(worst_row_sum(pattern) <= 1e-5);
}

TEST_CASE("cli edit: with guidance, infill, --logits-out and in a chat") {
    const std::string dir = temp_dir();
    CHECK(cli_json(base() + Args{"--diffusion-cfg-scale", "1", "--attn-edit",
                                 "drop keys=sinks:1"})["edit"]["applied"][0]["places"] == 24);
    CHECK(cli_json({"-m", layered_model("llada"), "--infill", "-p", "one[[3]]two", "--attn-edit",
                    "drop keys=user queries=answer"})["edit"]["applied"][0]["places"] == 9);
    const Args pass = exact_flags + Args{"-m", layered_model("llada"), "--tokens", "65,66,260,67", "--logits-out"};
    CHECK(cli(pass + Args{dir + "/plain.npy"}).code == 0);
    CHECK(cli(pass + Args{dir + "/edited.npy", "--attn-edit", "drop keys=0"}).code == 0);
    CHECK(read_file(dir + "/plain.npy") != read_file(dir + "/edited.npy"));
    const ProgramResult chat = cli(
        {"-m", tiny_chat_model("llada"), "-cnv", "-n", "2", "--attn-edit", "drop keys=assistant steps=1"}, "hello\n");
    check_refused(chat, "there is no region 'assistant', the regions are user, answer, other"); // no earlier answer
}

TEST_CASE("cli edit: what can't be done is refused in one line") {
    const std::vector<std::pair<Args, std::string>> wrong = {
        {{"--attn-edit", "mask keys=0"}, "--attn-edit: edit 'mask keys=0': it must begin with drop or bias"},
        {{"--attn-edit", "drop keys=0 layers=3"}, "there is no layer 3"},
        {{"--attn-edit", "drop keys=0 heads=4"}, "there is no head 4"},
        {{"--attn-edit", "drop keys=0 steps=8"}, "there is no step 8"},
        {{"--attn-edit", "drop keys=99"}, "there is no position 99"},
        {{"--attn-edit", "drop keys=doc1"}, "there is no region 'doc1', the regions are user, answer"},
        {{"--attn-edit", "drop keys=*"}, "no key"},
        {{"--attn-edit-compare"}, "--attn-edit-compare needs --attn-edit"},
        {{"--attn-edit", "drop keys=0", "--attn-edit-compare", "--logits-out", "x.npy"}, "--logits-out"},
    };
    for (const auto & [args, culprit] : wrong) {
        CAPTURE(args);
        check_refused(cli(base() + args), culprit);
    }
    // before anything is generated, or a recording is begun and told about
    const Args gemma = {"-m", tiny_gemma(), "--raw", "-p", "abc", "-n", "2", "--attn-edit", "drop keys=0 queries=1-"};
    for (const Args & more : {Args{}, Args{"--attn-edit-compare"}, Args{"--attn-dump", temp_dir() + "/run.npz"}}) {
        check_refused(cli(gemma + more), "libllama");
    }
}
