// Recordings through llama-diffusion-cli.

#include "support/attn-cli.h"
#include "support/gguf-bytes.h"
#include "support/hf-dir.h"
#include "support/oracle.h"
#include "support/paths.h"
#include "support/tiny-gemma.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <thread>

#include <sys/resource.h>

using namespace buoy;
using namespace buoy::test;
using Json = nlohmann::json;

namespace {

struct Case {
    const char * arch;
    Args         args;
};

// Every way in which keys are computed or reused.
const std::vector<Case> cases = {
    {"llada", {"--diffusion-block-length", "4"}},
    {"llada", {"--diffusion-block-length", "4", "--diffusion-cache", "prefix"}},
    {"llada", {"--diffusion-block-length", "4", "--diffusion-cache", "dual"}},
    {"llada", {"--diffusion-cfg-scale", "1.5", "--diffusion-steps", "4"}},
    {"llada", {"--diffusion-threshold", "0.05", "--diffusion-cache", "dual", "--diffusion-block-length", "4"}},
    {"dream", {"--diffusion-steps", "4"}},
    {"dream", {"--diffusion-cache", "dual", "--diffusion-block-length", "4"}},
    {"llama", {}},
    {"llama", {"--temp", "1"}},
};

Args args_of(const Case & one) {
    return Args{"-m", layered_model(one.arch), "--raw", "-p", "a short prompt", "-n", "8", "-s", "7", "--ignore-eos"} +
           exact_flags + one.args;
}

const Args refused_base() { return {"-m", layered_model("llada"), "--raw", "-p", "abc", "-n", "4"}; }

bool leaves_nothing(const std::string & dir) { return std::filesystem::is_empty(dir); }

} // namespace

TEST_CASE("cli attn: recording does not change the text, and repeats bit for bit") {
    for (const Case & one : cases) {
        CAPTURE(one.args);
        const std::string dir   = temp_dir();
        const Json        plain = cli_json(args_of(one));
        for (const char * reduce : {"none", "heads", "received", "regions"}) {
            CAPTURE(std::string(reduce));
            const Args args = args_of(one) + Args{"--attn-reduce", reduce, "--attn-dump"};
            const Json json = attn_json(args + Args{dir + "/" + reduce + ".npz"});
            CHECK(json["tokens"] == plain["tokens"]);
            CHECK(json["steps"] == plain["steps"]);
            CHECK(json["recording"]["path"] == dir + "/" + reduce + ".npz");
            CHECK(json["recording"]["steps"] == plain["steps"].size());
            CHECK(json["recording"]["bytes"] == std::filesystem::file_size(dir + "/" + reduce + ".npz"));
        }
        attn_json(args_of(one) + Args{"--attn-reduce", "none", "--attn-dump", dir + "/again.npz"});
        CHECK(read_file(dir + "/none.npz") == read_file(dir + "/again.npz"));
    }
}

TEST_CASE("cli attn: nor does it change the text of flash attention over F16 keys") {
    for (const size_t index : {0u, 1u, 2u, 5u, 7u}) {
        CAPTURE(cases[index].args);
        const Args args = args_of(cases[index]) + Args{"-fa", "auto", "-ctk", "f16", "-ctv", "f16"};
        for (const char * reduce : {"none", "received"}) {
            const Json json = attn_json(args + Args{"--attn-reduce", reduce, "--attn-dump", temp_dir() + "/run.npz"});
            CHECK(json["steps"] == cli_json(args)["steps"]);
        }
    }
}

TEST_CASE("cli attn: a model of libllama is recorded without further flags") {
    const std::string dir  = temp_dir();
    const Args        base = {"-m", tiny_gemma(), "--raw", "-p", "a short prompt", "-n", "4", "--ignore-eos"};
    attn_json(base + Args{"--attn-reduce", "none", "--attn-dump", dir + "/all.npz"});
    attn_json(base + Args{"--attn-reduce", "none", "--attn-dump", dir + "/late.npz", "--attn-steps", "2-"});
    const NpzReader all = NpzReader::open(dir + "/all.npz"), late = NpzReader::open(dir + "/late.npz");
    for (int step = 0; step < 4; step++) {
        CHECK(worst_row_sum(read_array(all, attn_name(step, 1))) <= 2e-3); // F16
        CHECK((late.find(attn_name(step, 1)) != nullptr) == (step >= 2));
    }
    const Array a = read_array(all, attn_name(3, 1)), b = read_array(late, attn_name(3, 1));
    CHECK(a.shape == b.shape);
    REQUIRE(a.values.size() == b.values.size());
    // libllama fuses operations that nobody looks at: the last bit of F16
    for (size_t i = 0; i < a.values.size(); i++) {
        CHECK(std::abs(a.values[i] - b.values[i]) <= a.values[i] / 1024 + 6e-8f);
    }
    const ProgramResult on = cli(base + Args{"-fa", "on", "--attn-dump", dir + "/on.npz"});
    CHECK(on.code == 1);
    CHECK(contains(on.err, "use -fa off"));
}

TEST_CASE("cli attn: the recording tells what happened") {
    const Case &      one  = cases[2];
    const std::string path = temp_dir() + "/run.npz";
    const Json        json = attn_json(args_of(one) + Args{"--attn-dump", path});
    const NpzReader   file = NpzReader::open(path);
    const Json        meta = read_meta(file);
    CHECK(meta["complete"] == true);
    CHECK(meta["seed"] == 7);
    CHECK(meta["edits"] == Json::array());
    CHECK(meta["model"]["arch"] == "llada");
    CHECK(meta["regions"][0]["name"] == "user");
    CHECK(meta["regions"][1]["name"] == "answer");
    const auto n_prompt = static_cast<int64_t>(json["prompt_tokens"].size());
    CHECK(meta["regions"][1]["spans"] == Json({{n_prompt, n_prompt + 8}}));
    const Array tokens = read_array(file, "tokens");
    CHECK(tokens.shape == std::vector<int64_t>{static_cast<int64_t>(json["steps"].size()) + 1, n_prompt + 8});
    for (size_t i = 0; i < 8; i++) {
        CHECK(tokens.values[tokens.values.size() - 8 + i] == json["tokens"][i].get<float>());
    }
    // a dual cache computes everything in a block's first step and the block in the others
    CHECK(read_array(file, "rows/step_0000").values.size() == static_cast<size_t>(n_prompt + 8));
    CHECK(read_array(file, "rows/step_0001").values.size() == 4);
    CHECK(read_array(file, attn_name(1, 2)).shape == std::vector<int64_t>{4, n_prompt + 8});
}

TEST_CASE("cli attn: only what was asked for") {
    const std::string path = temp_dir() + "/run.npz";
    attn_json(args_of(cases[0]) + Args{"--attn-dump", path, "--attn-layers", "1-", "--attn-heads", "0,2",
                                       "--attn-steps", "0,3-4", "--attn-rows", "2-5", "--attn-taps",
                                       "pattern,q,k,v,resid,scores", "--attn-reduce", "none", "--attn-dtype", "f32"});
    const NpzReader      file = NpzReader::open(path);
    const int64_t        T    = read_array(file, "tokens").shape[1];
    std::vector<int64_t> shape;
    CHECK(file.find(attn_name(0, 0)) == nullptr);
    CHECK(file.find(attn_name(1, 1)) == nullptr);
    for (int step : {0, 3, 4}) {
        for (int layer : {1, 2}) {
            CHECK(read_array(file, attn_name(step, layer)).shape == std::vector<int64_t>{2, 4, T});
            CHECK(worst_row_sum(read_array(file, attn_name(step, layer))) <= 1e-4);
            CHECK(read_array(file, attn_name(step, layer, "scores")).shape == std::vector<int64_t>{2, 4, T});
            CHECK(read_array(file, attn_name(step, layer, "q")).shape[2] == 16);
            CHECK(file.find(attn_name(step, layer, "k")) != nullptr);
            CHECK(file.find(attn_name(step, layer, "v_norm")) != nullptr);
            CHECK(file.find(attn_name(step, layer, "resid")) != nullptr);
        }
    }
}

TEST_CASE("cli attn: reductions are those of the whole pattern") {
    const std::string dir = temp_dir();
    for (const size_t index : {0u, 2u, 3u, 7u}) {
        CAPTURE(cases[index].args);
        for (const char * reduce : {"none", "heads", "received", "regions"}) {
            attn_json(args_of(cases[index]) + Args{"--force", "--attn-dtype", "f32", "--attn-reduce", reduce,
                                                   "--attn-dump", dir + "/" + reduce + ".npz"});
        }
        const NpzReader none = NpzReader::open(dir + "/none.npz"), heads = NpzReader::open(dir + "/heads.npz"),
                        received = NpzReader::open(dir + "/received.npz"),
                        regions  = NpzReader::open(dir + "/regions.npz");
        const Json spans         = read_meta(regions)["regions"];
        for (int step : {0, 1, 3}) {
            const Array              whole = read_array(none, attn_name(step, 1));
            const std::vector<float> rows  = read_array(none, "rows/" + attn_name(step, 1, "").substr(1, 9)).values;
            const auto               H = static_cast<size_t>(whole.shape[0]), Q = static_cast<size_t>(whole.shape[1]),
                       K = static_cast<size_t>(whole.shape[2]), R = spans.size();
            CHECK(rows.size() == Q);
            std::vector<float> mean(Q * K), column(H * K), pooled(R * R);
            const auto         in = [&](size_t region, double position) {
                for (const Json & span : spans[region]["spans"]) {
                    if (position >= span[0].get<double>() && position < span[1].get<double>()) {
                        return true;
                    }
                }
                return false;
            };
            for (size_t h = 0; h < H; h++) {
                for (size_t q = 0; q < Q; q++) {
                    for (size_t k = 0; k < K; k++) {
                        const float value = whole.values[(h * Q + q) * K + k];
                        mean[q * K + k] += value / static_cast<float>(H);
                        column[h * K + k] += value / static_cast<float>(Q);
                    }
                }
            }
            for (size_t a = 0; a < R; a++) {
                for (size_t b = 0; b < R; b++) {
                    for (size_t q = 0; q < Q; q++) {
                        for (size_t k = 0; k < K; k++) {
                            pooled[a * R + b] += in(a, static_cast<double>(rows[q])) && in(b, static_cast<double>(k))
                                                     ? mean[q * K + k]
                                                     : 0.0f;
                        }
                    }
                }
            }
            CHECK(worst_row_sum(whole) <= 1e-4);
            CHECK(max_abs_diff(read_array(heads, attn_name(step, 1)).values, mean) <= 1e-6);
            CHECK(max_abs_diff(read_array(received, attn_name(step, 1)).values, column) <= 1e-6);
            CHECK(max_abs_diff(read_array(regions, attn_name(step, 1)).values, pooled) <= 1e-4); // sums over up to T
        }
    }
}

TEST_CASE("cli attn: regions from a file, by text, positions and role") {
    const std::string dir = temp_dir();
    const std::string file =
        write_file(dir, "regions.json",
                   R"({"regions": [{"name": "doc", "text": "the cat"}, {"name": "head", "tokens": [0, 2]},
                                                        {"name": "rules", "role": "system"}]})");
    const Args base = {"-m", tiny_chat_model("llada"), "-n", "4", "-sys", "be brief", "--attn-reduce", "regions"};
    attn_json(base + Args{"-p", "where is the cat now", "--attn-regions", file, "--attn-dump", dir + "/run.npz"});
    const NpzReader run  = NpzReader::open(dir + "/run.npz");
    const Json      meta = read_meta(run);
    std::string     names;
    for (const Json & region : meta["regions"]) {
        names += region["name"].get<std::string>() + " ";
    }
    CHECK(names == "system user doc head rules answer other ");
    CHECK(read_array(run, attn_name(0, 0)).shape == std::vector<int64_t>{7, 7});
    CHECK(meta["regions"][0]["spans"] == meta["regions"][4]["spans"]);
    check_refused(cli(base + Args{"-p", "no pet", "--attn-regions", file, "--attn-dump", dir + "/x.npz"}),
                  "region 'doc': the text 'the cat' does not occur");
    CHECK_FALSE(std::filesystem::exists(dir + "/x.npz"));
}

TEST_CASE("cli attn: --logits-out is recorded as step 0") {
    const std::string dir = temp_dir();
    const Args base = exact_flags + Args{"-m", layered_model("llada"), "--tokens", "65,66,260,67,260", "--logits-out"};
    CHECK(cli(base + Args{dir + "/plain.npy"}).code == 0);
    const ProgramResult result =
        cli(base + Args{dir + "/taps.npy", "--attn-dump", dir + "/run.npz", "--attn-reduce", "none"});
    CHECK(result.code == 0);
    CHECK(result.out == "");
    CHECK(read_file(dir + "/plain.npy") == read_file(dir + "/taps.npy"));
    const NpzReader file = NpzReader::open(dir + "/run.npz");
    CHECK(read_array(file, attn_name(0, 2)).shape == std::vector<int64_t>{4, 5, 5});
    CHECK(read_array(file, "tokens").shape == std::vector<int64_t>{2, 5});
    CHECK(file.find(attn_name(1, 0)) == nullptr);
    CHECK(read_meta(file)["regions"][1]["spans"] == Json({{2, 3}, {4, 5}})); // the masks are the answer
}

TEST_CASE("cli attn: infill, and every answer of a chat in a file of its own") {
    const std::string dir = temp_dir();
    attn_json({"-m", tiny_model("llada"), "--infill", "-p", "one[[3]]two", "--attn-dump", dir + "/gap.npz"});
    CHECK(read_array(NpzReader::open(dir + "/gap.npz"), "tokens").shape[0] == 4);

    const ProgramResult result =
        cli({"-m", tiny_chat_model("llama"), "-cnv", "-n", "3", "--attn-dump", dir + "/run.npz"}, "hello\nagain\n");
    CAPTURE(result.err);
    CHECK(result.code == 0);
    CHECK(read_meta(NpzReader::open(dir + "/run.npz"))["regions"].size() == 3); // user, answer, other
    const Json regions = read_meta(NpzReader::open(dir + "/run-2.npz"))["regions"];
    CHECK(regions[0]["name"] == "user");
    CHECK(regions[0]["spans"].size() == 2);
    CHECK(regions[1]["name"] == "assistant");
    CHECK_FALSE(std::filesystem::exists(dir + "/run-3.npz"));
}

TEST_CASE("cli attn: what does not exist or can't be read is refused, and nothing is left") {
    const std::string                               dir   = temp_dir();
    const std::vector<std::pair<Args, std::string>> wrong = {
        {{"--attn-layers", "3"}, "--attn-layers: there is no layer 3, expected 0 to 2"},
        {{"--attn-heads", "1-4"}, "--attn-heads: there is no head 4, expected 0 to 3"},
        {{"--attn-steps", "4-"}, "--attn-steps: there is no step 4, expected 0 to 3"},
        {{"--attn-rows", "7"}, "--attn-rows: there is no position 7, expected 0 to 6"},
        {{"--attn-layers", "1,x"}, "--attn-layers: '1,x'"},
        {{"--attn-rows", "5-2"}, "--attn-rows: '5-2'"},
        {{"--attn-taps", "pattern,z"}, "--attn-taps: 'z'"},
        {{"--attn-reduce", "sum"}, "--attn-reduce: 'sum'"},
        {{"--attn-dtype", "f64"}, "--attn-dtype: 'f64'"},
        {{"--attn-max-size", "8Q"}, "--attn-max-size: '8Q'"},
        {{"--attn-max-size", "-1G"}, "--attn-max-size: '-1G'"},
        {{"--attn-max-size", "0"}, "--attn-max-size: '0'"},
        {{"--attn-regions", dir + "/none.json"}, "none.json"},
        {{"--attn-max-size", "1K"}, "--attn-max-size"},
    };
    for (const auto & [args, culprit] : wrong) {
        CAPTURE(args);
        check_refused(cli(refused_base() + Args{"--attn-dump", dir + "/run.npz"} + args), culprit);
        CHECK(leaves_nothing(dir));
    }
    for (const Args & args : {Args{"--attn-layers", "0"}, Args{"--attn-dtype", "f16"}}) {
        check_refused(cli(refused_base() + args), args[0] + " is about recording and needs --attn-dump");
    }
    check_refused(cli(refused_base() + Args{"--attn-regions", "x.json"}), "--attn-regions needs");
    check_refused(cli(refused_base() + Args{"--attn-dump", dir + "/missing/run.npz"}), "missing");
    for (const std::string & same : {dir + "/run.npz", dir + "/./run.npz"}) {
        check_refused(cli(refused_base() + Args{"--attn-dump", dir + "/run.npz", "--logits-out", same}),
                      "--attn-dump and --logits-out would both write");
        CHECK(leaves_nothing(dir));
    }

    CHECK(cli(refused_base() + Args{"--attn-dump", dir + "/run.npz"}).code == 0);
    const std::string before = read_file(dir + "/run.npz");
    check_refused(cli(refused_base() + Args{"--attn-dump", dir + "/run.npz"}), "--force");
    CHECK(read_file(dir + "/run.npz") == before);
    CHECK(cli(refused_base() + Args{"--attn-dump", dir + "/run.npz", "--force", "--attn-reduce", "received"}).code ==
          0);
    CHECK(read_file(dir + "/run.npz") != before);
}

TEST_CASE("cli attn: sizes with a unit") {
    const std::string dir = temp_dir();
    for (const char * size : {"200000", "200K", "1M", "0.001G", "1T"}) {
        CHECK(cli(refused_base() + Args{"--attn-dump", dir + "/run.npz", "--force", "--attn-max-size", size}).code ==
              0);
    }
}

TEST_CASE("cli attn: a limit on the size of files is an error, and nothing is left") {
    const std::string dir   = temp_dir();
    const std::string model = layered_model("llada");
    rlimit            kept  = {};
    REQUIRE(getrlimit(RLIMIT_FSIZE, &kept) == 0);
    rlimit small   = kept;
    small.rlim_cur = 20000;
    REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0); // the program inherits it
    const ProgramResult result = cli({"-m", model, "--raw", "-p", "a short prompt", "-n", "32", "--attn-reduce", "none",
                                      "--attn-dump", dir + "/run.npz"});
    REQUIRE(setrlimit(RLIMIT_FSIZE, &kept) == 0);
    CAPTURE(result.err);
    CHECK(result.code == 2);
    CHECK(contains(result.err, "run.npz"));
    CHECK(leaves_nothing(dir));
}

TEST_CASE("cli attn: Ctrl-C and SIGTERM leave a recording up to the last complete step") {
    for (int signal : {SIGINT, SIGTERM}) {
        const std::string path = temp_dir() + "/run.npz";
        ProgramSpec       spec;
        spec.name = "llama-diffusion-cli";
        spec.args = {
            "-m", layered_model("llada"), "--raw",    "-p",          "abc", "-n", "3000", "--no-perf", "--attn-dump",
            path, "--attn-reduce",        "received", "--ignore-eos"};
        Program program(spec);
        for (int i = 0; i < 30000 && !std::filesystem::exists(path + ".part"); i++) {
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1500));
        program.send(signal);
        const ProgramResult result = program.finish();
        CAPTURE(result.err);
        CHECK(result.code == 130);
        CHECK_FALSE(std::filesystem::exists(path + ".part"));
        if (!std::filesystem::exists(path)) { // a machine so busy that no step was done
            CHECK(contains(result.err, "no step was completed"));
            continue;
        }
        const NpzReader file = NpzReader::open(path);
        const Json      meta = read_meta(file);
        const auto      S    = meta["n_steps"].get<int>();
        CHECK(meta["complete"] == false);
        CHECK(S > 0);
        CHECK(S < 3000);
        CHECK(read_array(file, "tokens").shape[0] == S + 1);
        CHECK(file.find(attn_name(S - 1, 2)) != nullptr);
        CHECK(file.find(attn_name(S, 0)) == nullptr);
    }
}

TEST_CASE("cli attn: a run that fails keeps the steps before") {
    const std::string   path   = temp_dir() + "/run.npz";
    const ProgramResult result = cli(Args{"-m", layered_model("llada"), "--raw", "-p", "abc", "-n", "6", "--attn-dump",
                                          path, "--attn-edit", "drop keys=* layers=1 steps=3"});
    CAPTURE(result.err);
    CHECK(result.code == 1);
    CHECK(contains(result.err, "no key"));
    const NpzReader file = NpzReader::open(path);
    CHECK(read_meta(file)["n_steps"] == 3);
    CHECK(read_meta(file)["complete"] == false);
    CHECK(file.find(attn_name(2, 2)) != nullptr);
    CHECK(file.find(attn_name(3, 0)) == nullptr);
}
