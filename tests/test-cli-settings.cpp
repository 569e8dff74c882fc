// llama-diffusion-cli's settings: llama.cpp's spellings, what is refused and when, what is warned about.

#include "buoy/vocab.h"
#include "support/cli.h"
#include "support/gguf-bytes.h"
#include "support/hf-dir.h"
#include "support/paths.h"
#include "support/random-context.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace buoy;
using namespace buoy::test;

namespace {

using Ids = std::vector<int32_t>;

// Trained for a context of 64.
const std::string & short_model(const std::string & arch) {
    static std::map<std::string, std::string> paths;
    std::string &                             path = paths[arch];
    if (path.empty()) {
        RandomModel model;
        model.arch    = arch;
        model.n_embd  = 32;
        model.n_layer = 1;
        model.n_ctx   = 64;
        path          = random_gguf(model);
    }
    return path;
}

Ids prompt_of(const Args & args) {
    return cli_json(Args{"-m", tiny_model("llada"), "-n", "1", "--raw"} + args)["prompt_tokens"].get<Ids>();
}

Ids encoded(const std::string & text) { return Vocab::load(tiny_model("llada")).encode(text, true, false); }

void check_warned(const ProgramResult & result, const std::string & warning) {
    CHECK(result.code == 0);
    CHECK(result.err == "llama-diffusion-cli: warning: " + warning + "\n");
    CHECK(result.out.size() > 1);
}

} // namespace

TEST_CASE("cli settings: -n -1 takes what the context has left, -c 0 is the model's") {
    const Args three = {"--tokens", "1,2,3", "--ignore-eos"};
    for (const char * arch : {"llada", "llama"}) {
        CAPTURE(arch);
        const Args args = Args{"-m", short_model(arch)} + three;
        CHECK(cli_json(args + Args{"-n", "-1"})["tokens"].size() == 61);
        CHECK(cli_json(args + Args{"-n", "-1", "-c", "16"})["tokens"].size() == 13);
        CHECK(cli_json(args + Args{"-n", "-1", "-c", "16"})["settings"]["n_predict"] == 13);
        CHECK(cli_json(args + Args{"-n", "-1", "-c", "0"})["tokens"].size() == 61);
        CHECK(cli_json(args + Args{"-n", "4", "-c", "0"})["settings"]["n_ctx"] == 64);
        check_refused(cli(args + Args{"-n", "62", "-c", "0"}), "the context has 64");
        check_refused(cli(args + Args{"-n", "-1", "-c", "3"}), "no room");
        CHECK(cli(args, "", {{"LLAMA_ARG_N_PREDICT", "-1"}, {"LLAMA_ARG_CTX_SIZE", "16"}}).out ==
              cli(args + Args{"-n", "13"}).out);
    }
    // without -c no more than 4096, with -c 0 all of it
    RandomModel model;
    model.arch             = "llama";
    model.n_embd           = 32;
    model.n_layer          = 1;
    model.n_ctx            = 5000;
    const std::string path = random_gguf(model);
    const Args args = Args{"-m", path, "-n", "-1", "--logit-bias", "259+1000", "--tokens", "1,2"}; // ends at once
    CHECK(cli_json(args)["settings"]["n_ctx"] == 4096);
    CHECK(cli_json(args + Args{"-c", "0"})["settings"]["n_ctx"] == 5000);
}

TEST_CASE("cli settings: an answer of any length in a chat") {
    const std::string path = tiny_chat_model("llama");
    const std::string text = cli({"-m", path, "-cnv", "-n", "-1", "-c", "100", "--ignore-eos"}, "one\n").out;
    const size_t      n    = Vocab::load(path).encode_chat({{"user", "one"}}, true).size();
    CHECK(text == cli({"-m", path, "-p", "one", "-n", std::to_string(100 - n), "--ignore-eos"}).out);
}

TEST_CASE("cli settings: llama.cpp's other spellings") {
    const Args        args = {"-m", tiny_model("llada"), "-p", "the", "-n", "4"};
    const std::string text = cli(args).out;
    for (const Args & same : {Args{"-t", "-1"}, Args{"-ngl", "-1"}, Args{"-ngl", "auto"}, Args{"--flash-attn", "-1"}}) {
        CAPTURE(same);
        const ProgramResult result = cli(args + same);
        CHECK(result.err == "");
        CHECK(result.out == text);
    }
    const auto flash = [&](const std::string & value) {
        return cli_json(args + Args{"-fa", value})["settings"]["flash_attn"].get<std::string>();
    };
    for (const char * on : {"on", "1", "true", "enabled"}) {
        CHECK(flash(on) == "on");
    }
    for (const char * off : {"off", "0", "false", "disabled"}) {
        CHECK(flash(off) == "off");
    }
    CHECK(flash("auto") == "auto");
    CHECK(
        cli(args, "", {{"LLAMA_ARG_THREADS", "-1"}, {"LLAMA_ARG_N_GPU_LAYERS", "auto"}, {"LLAMA_ARG_FLASH_ATTN", "-1"}})
            .out == text);
    check_refused(cli(args + Args{"-t", "-2"}), "-2");
    check_refused(cli(args + Args{"-n", "-2"}), "-2");
    check_refused(cli(args + Args{"-fa", "2"}), "on|off|auto");
}

TEST_CASE("cli settings: escapes in -p, and only there") {
    CHECK(prompt_of({"-p", R"(a\nb\r\t\'\"\\n\x41\x4)"}) == encoded("a\nb\r\t'\"\\nA\\x4"));
    CHECK(prompt_of({"-p", R"(\q\)"}) == encoded(R"(\q\)"));
    CHECK(prompt_of({"-p", R"(\x4g\xg4)"}) == encoded(R"(\x4g\xg4)"));
    CHECK(prompt_of({"-e", "-p", R"(a\nb)"}) == encoded("a\nb"));
    CHECK(prompt_of({"--no-escape", "-p", R"(a\nb)"}) == encoded(R"(a\nb)"));
    CHECK(prompt_of({"--no-escape", "--escape", "-p", R"(a\nb)"}) == encoded("a\nb")); // the last one counts
    CHECK(prompt_of({"-e", "--no-escape", "-p", R"(a\nb)"}) == encoded(R"(a\nb)"));
    CHECK(prompt_of({"-f", write_file(temp_dir(), "prompt", R"(a\nb)")}) == encoded(R"(a\nb)"));
    const ProgramResult filled = cli({"-m", tiny_model("llada"), "--infill", "-p", R"(one\n[[2]])"});
    CHECK(filled.out.rfind("one\n", 0) == 0);
}

TEST_CASE("cli settings: what contradicts itself is refused before a model is looked for") {
    const Args args = {"-m", "/no/such/model.gguf", "-p", "the"};
    struct Case {
        Args        more;
        std::string culprit;
    };
    for (const Case & c :
         {Case{{"--diffusion-eps", "0.1", "--diffusion-block-length", "3"}, "eps"},
          Case{{"--diffusion-threshold", "0.9", "--diffusion-factor", "1"}, "threshold"},
          Case{{"--diffusion-threshold", "0.9", "--diffusion-algorithm", "eb"}, "eb"},
          Case{{"--diffusion-steps", "4", "--diffusion-steps-per-block", "4"}, "steps"},
          Case{{"--diffusion-steps", "2000000"}, "steps"}, Case{{"--diffusion-algorithm", "pc"}, "table"},
          Case{{"--diffusion-algorithm", "origin", "--diffusion-cache", "dual"}, "origin"},
          Case{{"--logit-bias", "5+inf"}, "'5+inf'"}, Case{{"--logit-bias", "5=+inf"}, "'5=+inf'"},
          Case{{"--logit-bias", "5+nan"}, "'5+nan'"}, Case{{"--logit-bias", "5"}, "'5'"},
          Case{{"--logit-bias", "5-"}, "'5-'"}}) {
        CAPTURE(c.more);
        const ProgramResult result = cli(args + c.more);
        check_refused(result, c.culprit);
        CHECK_FALSE(contains(result.err, "model.gguf"));
    }
}

TEST_CASE("cli settings: a context too short for the prompt is refused before the weights are loaded") {
    GgufBytes file = parse_gguf(read_file(tiny_model("llada")));
    file.erase_tensor("output_norm.weight");
    const std::string path = write_file(temp_dir(), "tensor.gguf", file.build());
    const Args        args = {"-m", path, "--tokens", "1,2,3,4", "-n", "4"};
    check_refused(cli(args), "output_norm.weight");
    check_refused(cli(args + Args{"-c", "7"}), "the context has 7");
}

TEST_CASE("cli settings: what a model can't do is refused right after it is loaded, also for a chat") {
    check_refused(cli({"-m", tiny_chat_model("llada"), "-cnv", "--logit-bias", "320+1"}), "320");
    check_refused(cli({"-m", tiny_model("llada"), "-p", "a", "--diffusion-eps", "0.1", "--diffusion-cache", "dual"}),
                  "only for shifted models");
    const nlohmann::json json = cli_json({"-m", tiny_model("dream"), "-p", "a", "-n", "8", "--diffusion-eps", "0.2",
                                          "--diffusion-cache", "dual", "--diffusion-block-length", "4"});
    CHECK(json["settings"]["eps"] == 0.2);
    CHECK(json["settings"]["block_length"] == 4);
}

TEST_CASE("cli settings: an autoregressive model names the flags that it does not heed") {
    const Args args = {"-m", tiny_model("llama"), "-p", "the", "-n", "4"};
    check_warned(cli(args + Args{"--diffusion-steps", "4", "--diffusion-cache", "none", "--diffusion-visual"}),
                 "llama is an autoregressive model; these flags have no effect: --diffusion-steps, --diffusion-cache, "
                 "--diffusion-visual");
    CHECK(cli(args).err == "");
    CHECK(cli({"-m", tiny_model("llada"), "-p", "the", "-n", "4", "--diffusion-steps", "4"}).err == "");
    check_refused(cli(args + Args{"--diffusion-cfg-scale", "1"}), "guidance");
}

TEST_CASE("cli settings: the length of blocks that a file recommends, unless something else is asked for") {
    const auto length = [](const Args & more) {
        const auto json =
            cli_json(Args{"-m", "buoy-mdm", "-p", "the", "-n", "32", "--diffusion-threshold", "0.1"} + more);
        return json["settings"]["block_length"].get<int>();
    };
    CHECK(length({}) == 16);
    CHECK(length({"--diffusion-block-length", "8"}) == 8);
    const Args        logits = {"-m", "buoy-mdm", "--tokens", "5,6,7", "--logits-out"};
    const std::string dir    = temp_dir();
    CHECK(cli(logits + Args{dir + "/logits.npy"}).code == 0);
}

TEST_CASE("cli settings: a flag that needs another one says so") {
    const Args args = {"-m", tiny_model("llada"), "-p", "the", "-n", "4"};
    check_warned(cli(args + Args{"--diffusion-post-steps", "3"}),
                 "--diffusion-post-steps has no effect without --diffusion-edit-threshold");
    check_warned(cli(args + Args{"--diffusion-cache-refresh", "2"}),
                 "--diffusion-cache-refresh has no effect without --diffusion-cache");
    CHECK(cli(args + Args{"--diffusion-cache-refresh", "2", "--diffusion-cache", "dual"}).err == "");
}

TEST_CASE("cli settings: more than the model was trained for is warned about") {
    for (const char * arch : {"llada", "llama"}) {
        CAPTURE(arch);
        const Args args = {"-m", short_model(arch), "--tokens", "1,2,3", "--diffusion-steps", "2"};
        const Args ar   = {"-m", short_model(arch), "--tokens", "1,2,3"};
        const Args base = std::string(arch) == "llada" ? args : ar;
        CHECK(cli(base + Args{"-n", "61", "-c", "500"}).err == "");
        check_refused(cli(base + Args{"-n", "62"}), "-c 65");
        const ProgramResult longer = cli(base + Args{"-n", "62", "-c", "65"});
        check_warned(longer,
                     "prompt and answer take 65 positions, but the model was trained for 64, so the text may be "
                     "poor; the run takes up to " +
                         std::string(base == args ? "2 passes over all 65 positions" : "62 passes"));
    }
    GgufBytes file = parse_gguf(read_file(tiny_chat_model("llama")));
    file.pair("llama.context_length").value =
        parse_gguf(read_file(short_model("llama"))).pair("llama.context_length").value;
    const std::string chat = write_file(temp_dir(), "chat.gguf", file.build());
    CHECK(cli({"-m", chat, "-cnv", "-n", "2"}, "a\n").err == "");
    check_warned(cli({"-m", chat, "-cnv", "-n", "2", "-c", "128"}, "a\n"),
                 "the context has 128 positions, but the model was trained for 64, so the text may be poor");
}

TEST_CASE("cli settings: devices tell what they know") {
    const std::string list = cli({"--list-devices"}).out;
    const size_t      cpu  = list.find("CPU ");
    REQUIRE(cpu != std::string::npos);
    CHECK_FALSE(contains(list.substr(cpu, list.find('\n', cpu) - cpu), "free"));
}
