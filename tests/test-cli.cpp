// llama-diffusion-cli from the outside, on random models: what it prints, where, and that flags do what they say.

#include "buoy/frequency-table.h"
#include "buoy/printable.h"
#include "buoy/vocab.h"
#include "support/cli.h"
#include "support/gguf-bytes.h"
#include "support/hf-dir.h"
#include "support/paths.h"
#include "support/random-context.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

using namespace buoy;
using namespace buoy::test;

namespace {

using Json = nlohmann::json;
using Ids  = std::vector<int32_t>;

} // namespace

TEST_CASE("cli: help names every flag, and docs/cli.md is what the program says") {
    const ProgramResult help = cli({"--help"});
    CHECK(help.code == 0);
    CHECK(help.err == "");
    for (const char * flag : {"-m, ",
                              "-p, ",
                              "-f, ",
                              "-n, ",
                              "-c, ",
                              "-t, ",
                              "-ngl, ",
                              "-dev, ",
                              "--list-devices",
                              "--rpc",
                              "-fa, ",
                              "--temp",
                              "--top-k",
                              "--top-p",
                              "--min-p",
                              "-s, --seed",
                              "-cnv, ",
                              "-sys, ",
                              "-v, ",
                              "--log-file",
                              "--version",
                              "-h, ",
                              "-ctk, ",
                              "-ctv, ",
                              "--logit-bias",
                              "--ignore-eos",
                              "--diffusion-steps N",
                              "--diffusion-steps-per-block",
                              "--diffusion-block-length",
                              "--diffusion-eps",
                              "--diffusion-algorithm",
                              "--diffusion-alg-temp",
                              "--diffusion-cfg-scale",
                              "--diffusion-threshold",
                              "--diffusion-factor",
                              "--diffusion-pc-table",
                              "--diffusion-pc-lambda",
                              "--diffusion-pc-alpha",
                              "--diffusion-eb-gamma",
                              "--diffusion-cache none|prefix|dual",
                              "--diffusion-cache-refresh",
                              "--unpack off|f16|auto",
                              "--diffusion-visual",
                              "--no-history",
                              "--raw",
                              "--tokens",
                              "--logits-out",
                              "--json",
                              "--infill",
                              "--no-mmap",
                              "--no-repack",
                              "--no-perf",
                              "(default: 0.25)",
                              "(default: 128)",
                              "[env LLAMA_ARG_N_GPU_LAYERS]"}) {
        CAPTURE(flag);
        CHECK(contains(help.out, flag));
    }
    for (size_t at = 0; at < help.out.size();) {
        const size_t end = help.out.find('\n', at);
        CHECK(end - at <= 100);
        at = end + 1;
    }
    CHECK(cli({"-h"}).out == help.out);
    CHECK(contains(cli({"tokens-freq", "--help"}).out, "-o, --output FILE"));
}

TEST_CASE("programs: docs/cli.md is what they say of themselves, and all tell their version and refuse what they don't "
          "know") {
    std::string manual;
    for (const char * name : {"llama-diffusion-cli", "llama-diffusion-eval", "llama-attention", "llama-diffusion-bench",
                              "llama-diffusion-convert", "llama-diffusion-server"}) {
        CAPTURE(name);
        const auto run = [&](const Args & args) { return run_program({name, args, {}, {}, {}}); };
        manual += (manual.empty() ? "" : "\n") + run({"--help-markdown"}).out;
        CHECK(contains(run({"--version"}).out, std::string(name) + " "));
        CHECK(contains(run({"-h"}).out, "Exit codes: 0 success, 1 invalid request, 2 failure while running, 130"));
        const ProgramResult refused = run({"--no-such-flag"});
        CHECK(refused.code == 1);
        CHECK(refused.is_one_line());
        CHECK(refused.err.rfind(std::string(name) + ": ", 0) == 0);
    }
    CHECK(manual == read_file(source_dir() + "/docs/cli.md")); // CONTRIBUTING.md says how it is made
}

TEST_CASE("cli: JSON has what the design promises") {
    const Json json = cli_json({"-m", tiny_model("llada"), "-p", "hi", "-n", "6", "-s", "5"});
    CHECK(json["prompt_tokens"].get<Ids>() == Vocab::load(tiny_model("llada")).encode("hi", true, false));
    CHECK(json["tokens"].size() <= 6);
    CHECK(json["forwards"] == 6);
    CHECK(json["seed"] == 5);
    CHECK(json["model"]["arch"] == "llada");
    CHECK(json["settings"]["n_predict"] == 6);
    CHECK(json["settings"]["algorithm"] == "confidence");
    CHECK(json["settings"]["cache"] == "none");
    CHECK(json["text"] == Vocab::load(tiny_model("llada")).decode(json["tokens"].get<Ids>()));
    for (const char * name : {"load_ms", "prompt_ms", "decode_ms", "tokens_per_s"}) {
        CHECK(json["timings"][name].is_number());
    }
    REQUIRE(json["steps"].size() == 6);
    for (int i = 0; i < 6; i++) {
        const Json & step = json["steps"][static_cast<size_t>(i)];
        CHECK(step["step"] == i);
        CHECK(step["block"] == 0);
        CHECK(step["committed"].size() == 1);
        CHECK(step["committed"][0][0].get<size_t>() >= json["prompt_tokens"].size());
    }
}

TEST_CASE("cli: JSON is UTF-8 whatever the model writes") {
    // every byte of the vocabulary comes up, most sequences of them are invalid
    const ProgramResult result =
        cli({"-m", tiny_model("llama"), "-p", "x", "-n", "200", "--temp", "50", "-s", "1", "--json", "--ignore-eos"});
    CHECK(result.code == 0);
    const Json json = Json::parse(result.out, nullptr, false);
    REQUIRE(json.is_object());
    CHECK(json["tokens"].size() == 200);
    CHECK(contains(json["text"].get<std::string>(), "\uFFFD"));
}

TEST_CASE("cli: the text on stdout is the text in the JSON, streamed or not") {
    for (const char * arch : {"llada", "llama", "dream"}) {
        CAPTURE(arch);
        const Args          args = {"-m", tiny_model(arch), "-p", "the", "-n", "24", "-s", "3", "--temp", "0.8"};
        const ProgramResult text = cli(args);
        CHECK(text.code == 0);
        CHECK(text.err == "");
        CHECK(text.out == cli_json(args)["text"].get<std::string>() + "\n");
    }
}

TEST_CASE("cli: a drawn seed is told and reproduces the text, for any number of threads") {
    for (const char * arch : {"llada", "dream", "llama"}) {
        CAPTURE(arch);
        const Args          args = {"-m",  tiny_model(arch), "-p",  "the",         "-n", "16", "--temp",
                                    "1.2", "--top-k",        "900", "--ignore-eos"}; // or it may end at once, and says so
        const ProgramResult run  = cli(args, "", {{"LLAMA_ARG_NO_PERF", "0"}});
        CHECK(run.code == 0);
        CHECK(run.is_one_line());
        CHECK(contains(run.err, "tokens/s; "));
        CHECK(contains(run.err, " forwards, "));
        const size_t at = run.err.find("seed ");
        REQUIRE(at != std::string::npos);
        const std::string seed = run.err.substr(at + 5, run.err.size() - at - 6);
        for (const char * threads : {"1", "2"}) {
            CHECK(cli(args + Args{"-s", seed, "-t", threads}).out == run.out);
        }
        CHECK(cli(args + Args{"-s", seed + "1"}).out != run.out);
        const Json json = cli_json(args);
        CHECK(cli(args + Args{"-s", json["seed"].dump()}).out == json["text"].get<std::string>() + "\n");
    }
}

TEST_CASE("cli: logits of one pass are the engine's") {
    const Ids           ids  = {1, 2, 3, 258, 5};
    const std::string   path = temp_dir() + "/logits.npy";
    const ProgramResult result =
        cli({"-m", tiny_model("llada"), "--tokens", "1,2, 3,258,5", "--logits-out", path, "-fa", "off", "-t", "1"});
    CHECK(result.code == 0);
    CHECK(result.out == "");
    const std::string bytes = read_file(path);
    CHECK(contains(bytes.substr(0, 128), "'descr': '<f4', 'fortran_order': False, 'shape': (5, 320, )"));
    REQUIRE(bytes.size() == 128 + 5 * 320 * sizeof(float));
    std::vector<float> logits(5 * 320);
    std::memcpy(logits.data(), bytes.data() + 128, bytes.size() - 128);

    TestModel     model;
    ContextParams params;
    model.path       = tiny_model("llada");
    params.flash     = FlashAttention::off;
    params.n_threads = 1;
    params.n_ctx     = 16;
    ForwardRequest request;
    request.tokens = ids;
    request.rows.resize(ids.size());
    std::iota(request.rows.begin(), request.rows.end(), 0);
    CHECK(load_context(model, params)->forward(request).logits == logits);
}

TEST_CASE("cli: a prompt from a file or standard input is the same prompt") {
    const Args        args = {"-m", tiny_model("llada"), "-n", "8"};
    const std::string text = cli(args + Args{"-p", "the cat"}).out;
    CHECK(cli(args + Args{"-p", "-"}, "the cat\n").out == text);
    CHECK(cli(args + Args{"-f", "-"}, "the cat\n").out == text);
    CHECK(cli(args + Args{"-f", write_file(temp_dir(), "prompt", "the cat")}).out == text);
    CHECK(cli(args + Args{"--prompt=the cat"}).out == text);
    CHECK(cli({"-p", "the cat", "-n", "8"}, "", {{"LLAMA_ARG_MODEL", tiny_model("llada")}}).out == text);
    CHECK(cli(args + Args{"-p", "-fa"}).code == 0); // a value, not a flag
    CHECK(cli(args + Args{"-p", "the cat", "-n", "9", "-n", "8"}).out == text);
    CHECK(cli_json(args + Args{"--raw", "-p", "-fa"})["prompt_tokens"].get<Ids>() ==
          Vocab::load(tiny_model("llada")).encode("-fa", true, false));
    check_refused(cli(args), "no prompt given");
    check_refused(cli(args + Args{"-p", "a", "--tokens", "1"}), "use only one of them");
}

TEST_CASE("cli: the chat template is used where there is one") {
    const std::string path  = tiny_chat_model("llada");
    const Vocab       vocab = Vocab::load(path);
    const Args        args  = {"-m", path, "-n", "4"};
    CHECK(cli_json(args + Args{"-p", "hi"})["prompt_tokens"].get<Ids>() == vocab.encode_chat({{"user", "hi"}}, true));
    CHECK(cli_json(args + Args{"-p", "hi", "-sys", "be"})["prompt_tokens"].get<Ids>() ==
          vocab.encode_chat({{"system", "be"}, {"user", "hi"}}, true));
    CHECK(cli_json(args + Args{"-p", "hi", "--raw"})["prompt_tokens"].get<Ids>() == vocab.encode("hi", true, false));
    check_refused(cli(args + Args{"-p", "hi", "--raw", "-sys", "be"}), "-sys");
    check_refused(cli({"-m", tiny_model("llada"), "-n", "4", "-p", "hi", "-sys", "be"}), "-sys");
}

TEST_CASE("cli: infill fills the gaps and nothing else") {
    const Args          args   = {"-m", tiny_model("llada"), "--infill"};
    const ProgramResult result = cli(args + Args{"-p", "The [[3]] cat\xff [[x]][[2]]."});
    CHECK(result.code == 0);
    CHECK(result.out.rfind("The ", 0) == 0);
    CHECK(contains(result.out, " cat\xff [[x]]"));
    CHECK(result.out.substr(result.out.size() - 2) == ".\n");

    const Json json = cli_json(args + Args{"-p", "ab[[3]]cd"});
    CHECK(json["tokens"].size() == 3);
    CHECK(json["forwards"] == 3);
    CHECK(json["text"].get<std::string>().rfind("ab", 0) == 0);
    CHECK(cli(args + Args{"-f", "-"}, "ab[[3]]cd").out == json["text"].get<std::string>() + "\n");
    const std::string file = cli(args + Args{"-f", "-"}, "ab[[3]]cd\n").out; // its newline is the only one
    CHECK(file.substr(file.size() - 3) == "cd\n");

    check_refused(cli(args + Args{"-p", "no gap"}), "no gap");
    check_refused(cli(args + Args{"-p", "[[0]]"}), "'[[0]]'");
    check_refused(cli({"-m", tiny_model("llama"), "--infill", "-p", "a[[2]]b"}), "only diffusion models");
}

TEST_CASE("cli: the visual mode prints plain lines where there is no terminal") {
    const Args          args   = {"-m", tiny_model("llada"), "-p", "the", "-n", "5"};
    const ProgramResult result = cli(args + Args{"--diffusion-visual"});
    CHECK(result.code == 0);
    CHECK(result.out == cli(args).out);
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 5);
    CHECK(result.err.rfind("step 1 · block 1 · 1/5 tokens", 0) == 0);
    CHECK(contains(result.err, "____"));
    CHECK(!contains(result.err, "\033"));
}

TEST_CASE("cli: tokens-freq counts what pc then uses") {
    const std::string dir   = temp_dir();
    const std::string table = dir + "/table.json";
    const std::string one   = write_file(dir, "one.txt", "aab");
    const std::string two   = write_file(dir, "two.txt", "b<|im_end|>");
    const Vocab       vocab = Vocab::load(tiny_model("llada"));
    const Args        args  = {"tokens-freq", "-m", tiny_model("llada"), "-f", one, two, "-o", table};
    CHECK(cli(args).code == 0);
    const FrequencyTable read = load_frequency_table(table);
    CHECK(read.counts.at(vocab.encode("a", false, false)[0]) == 2);
    CHECK(read.counts.at(vocab.encode("b", false, false)[0]) == 2);
    CHECK(read.n_total == static_cast<int64_t>(3 + vocab.encode("b<|im_end|>", false, false).size()));

    check_refused(cli(args), "--force");
    CHECK(cli(args + Args{"--force"}).code == 0);
    check_refused(cli({"tokens-freq", "-m", tiny_model("llada"), "-f", one}), "-o");
    check_refused(cli({"tokens-freq", "-m", tiny_model("llada"), "-f", dir + "/none", "-o", table}), "none");

    const Args pc = {"-m", tiny_model("llada"), "-p", "the", "-n", "6", "--diffusion-algorithm", "pc"};
    check_refused(cli(pc), "table");
    CHECK(cli_json(pc + Args{"--diffusion-pc-table", table})["settings"]["algorithm"] == "pc");
    check_refused(cli(pc + Args{"--diffusion-pc-table", one}), one);
}

TEST_CASE("cli: flags that change the tokens do") {
    const std::string base   = "the quick";
    const auto        tokens = [&](const Args & more) {
        return cli_json(Args{"-m", tiny_model("llada"), "-p", base, "-n", "12"} + more);
    };
    const Ids plain = tokens({})["tokens"].get<Ids>();
    REQUIRE(!plain.empty());
    const std::string first  = std::to_string(plain[0]);
    const Ids         banned = tokens({"--logit-bias", first + "-inf", "--logit-bias", "7+0.5"})["tokens"].get<Ids>();
    CHECK(std::find(banned.begin(), banned.end(), plain[0]) == banned.end());
    CHECK(tokens({"--logit-bias", "65+1000"})["tokens"] == Json(Ids(12, 65)));
    CHECK(tokens({"--temp", "5", "-s", "1", "--top-k", "1"})["tokens"] == tokens({})["tokens"]);
    CHECK(tokens({"--diffusion-steps", "3"})["forwards"] == 3);
    CHECK(tokens({"--diffusion-block-length", "4", "--diffusion-steps-per-block", "2"})["forwards"] == 6);
    CHECK(tokens({"--diffusion-threshold", "0"})["forwards"] == 1);
    CHECK(tokens({"--diffusion-eps", "0.01", "--diffusion-algorithm", "1"})["settings"]["schedule"] == "timesteps");
    CHECK(tokens({"--diffusion-algorithm", "2"})["settings"]["algorithm"] == "margin");
    CHECK(tokens({"--diffusion-cfg-scale", "1.5"})["settings"]["cfg_scale"] == 1.5);
    CHECK(tokens({"--diffusion-cache", "dual", "--diffusion-block-length", "4", "--diffusion-cache-refresh", "2",
                  "--unpack", "auto", "--no-mmap", "--no-repack"})["settings"]["cache"] == "dual");
    // an end token ends the text unless it is ignored
    const std::string end = std::to_string(Vocab::load(tiny_model("llada")).end_ids().at(0));
    CHECK(tokens({"--logit-bias", end + "+1000"})["tokens"].empty());
    CHECK(tokens({"--logit-bias", end + "+1000", "--ignore-eos"})["tokens"].size() == 12);
}

TEST_CASE("cli: settings out of range are refused by name, generous ones are taken") {
    const Args args = {"-m", tiny_model("llada"), "-p", "the", "-n", "6"};
    for (const Args & wrong : {Args{"--temp", "nan"},
                               Args{"--temp", "-1"},
                               Args{"--temp", "0,5"},
                               Args{"--top-p", "0"},
                               Args{"--top-p", "2"},
                               Args{"--top-p", "nan"},
                               Args{"--min-p", "1.5"},
                               Args{"--top-k", "-1"},
                               Args{"--diffusion-steps", "0"},
                               Args{"--diffusion-steps", "-3"},
                               Args{"--diffusion-eps", "0"},
                               Args{"--diffusion-eps", "1"},
                               Args{"--diffusion-threshold", "1.1"},
                               Args{"--diffusion-algorithm", "best"},
                               Args{"--diffusion-cache", "all"},
                               Args{"--diffusion-cfg-scale", "inf"},
                               Args{"--logit-bias", "5"},
                               Args{"--logit-bias", "x+1"},
                               Args{"--logit-bias", "5+-1"},
                               Args{"--unpack", "q4"},
                               Args{"-s", "-2"},
                               Args{"--log-file", "/"}}) {
        CAPTURE(wrong);
        check_refused(cli(args + wrong), wrong[0]);
    }
    check_refused(cli(args + Args{"--diffusion-eps", "0.1", "--diffusion-block-length", "3"}), "eps");
    check_refused(cli(args + Args{"--diffusion-threshold", "0.9", "--diffusion-factor", "1"}), "threshold");
    check_refused(cli(args + Args{"--logit-bias", "320+1"}), "320");
    check_refused(cli({"-m", tiny_model("llada"), "-p", "the", "-n", "0"}), "there is nothing to write");
    check_refused(cli({"-m", tiny_model("llama"), "-p", "the", "--diffusion-cfg-scale", "1"}), "guidance");
    check_refused(cli(args + Args{"--rpc", "nowhere"}), "RPC");
    for (const Args & fine : {Args{"--top-k", "100000", "--temp", "1"}, Args{"--diffusion-steps", "1000"},
                              Args{"--diffusion-block-length", "5"}, Args{"--diffusion-block-length", "1000"}}) {
        CAPTURE(fine);
        CHECK(cli(args + fine).code == 0);
    }
}

TEST_CASE("cli: messages go to the log file as well") {
    const std::string   path = temp_dir() + "/log";
    const ProgramResult result =
        cli({"-m", tiny_model("llada"), "-p", "the", "-n", "2", "--log-file", path}, "", {{"LLAMA_ARG_NO_PERF", "0"}});
    CHECK(result.code == 0);
    CHECK(contains(read_file(path), "tokens per forward; seed "));
    CHECK(result.is_one_line());
    CHECK(cli({"-m", tiny_model("llada"), "-p", "the", "-n", "2", "-v"}).err != "");
}

TEST_CASE("cli: the library in ten lines says the same") {
    ProgramSpec spec;
    spec.name                 = "llama-simple";
    spec.args                 = {tiny_model("llada"), "the cat"};
    const ProgramResult plain = run_program(spec);
    CHECK(plain.code == 0);
    CHECK(plain.out ==
          printable_lines(cli({"-m", tiny_model("llada"), "-p", "the cat", "-n", "64", "-ngl", "all"}).out));
    CHECK(std::count(plain.err.begin(), plain.err.end(), '\n') == 64);
    spec.args = {tiny_model("llada") + "x", "the cat"};
    CHECK(run_program(spec).code == 1);
}

TEST_CASE("cli: devices and version") {
    CHECK(contains(cli({"--list-devices"}).out, "CPU"));
    CHECK(cli({"--version"}).out.rfind("llama-diffusion-cli 0.", 0) == 0);
}
