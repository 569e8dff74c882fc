// How the programs read their arguments: exact names, and for a mistake one line that says what was probably meant.

#include "llama-flags.h"
#include "suggest.h"
#include "support/cli.h"
#include "support/hf-dir.h"
#include "support/paths.h"

#include <doctest/doctest.h>

#include <regex>
#include <set>

using namespace buoy::test;

namespace {

ProgramResult run(const std::string & name, const Args & args) { return run_program({name, args, {}, {}, {}}); }

const char * const programs[] = {"llama-diffusion-cli",   "llama-diffusion-eval qa", "llama-attention floating",
                                 "llama-diffusion-bench", "llama-diffusion-convert", "llama-diffusion-server"};

// A program, with a command where it needs one.
ProgramResult run_any(const std::string & line, const Args & args) {
    const size_t space = line.find(' ');
    return run(line.substr(0, space), (space == std::string::npos ? Args{} : Args{line.substr(space + 1)}) + args);
}

} // namespace

TEST_CASE("flags: a short flag is never part of another one") {
    for (const char * program : programs) {
        CAPTURE(program);
        for (const char * flag : {"-hx", "-hf", "-vh", "-h1", "--hel", "-hlep"}) {
            CAPTURE(flag);
            check_refused(run_any(program, {flag, "x"}), flag);
        }
    }
    check_refused(cli({"-n5", "-p", "x"}), "did you mean -n 5?");
    check_refused(cli({"-ngl99", "-p", "x"}), "did you mean -ngl 99?");
    check_refused(cli({"-pHello"}), "-pHello");
    CHECK(cli({"-m=" + tiny_model("llada"), "-p=hi", "-n=2", "--json=true"}).code == 0);
}

TEST_CASE("flags: of those that only llama.cpp has, the line says what to do instead") {
    check_refused(cli({"-hf", "some/repo"}), "pass its path with -m");
    check_refused(cli({"--hf-repo=some/repo"}), "pass its path with -m");
    check_refused(cli({"--port", "8080"}), "no server");
    check_refused(cli({"--chat-template", "chatml"}), "--raw");
    check_refused(cli({"--mirostat", "2"}), "--top-p");
    check_refused(cli({"-fit", "on"}), "-ngl auto");
    check_refused(run("llama-diffusion-eval", {"qa", "--chat-template", "chatml"}), "--raw");
    check_refused(run("llama-diffusion-bench", {"--top-k", "2"}), "unknown flag --top-k"); // ours elsewhere
    check_refused(run("llama-diffusion-bench", {"--mirostat", "2"}), "no counterpart in this program");
}

TEST_CASE("flags: every flag of the pinned llama.cpp is ours or has advice") {
    const std::string source = read_file(std::string(BUOY_LLAMA_CPP_TREE) + "/common/arg.cpp");
    REQUIRE(source.size() > 100000);
    const std::string     help = cli({"--help"}).out + run("llama-diffusion-convert", {"imatrix", "--help"}).out;
    std::set<std::string> known;
    const std::regex      ours("--?[a-z][a-zA-Z0-9.-]*");
    for (std::sregex_iterator at(help.begin(), help.end(), ours), end; at != end; ++at) {
        known.insert(at->str());
    }
    // add_opt(common_arg({"-a", "--long"}, {"--no-long"}, …
    const std::regex option(R"(add_opt\(common_arg\(\s*\{([^}]*)\}\s*(?:,\s*\{([^}]*)\})?)");
    const std::regex name("\"(-[^\"]*)\"");
    size_t           n_flags = 0;
    for (std::sregex_iterator at(source.begin(), source.end(), option), end; at != end; ++at) {
        const std::string names = (*at)[1].str() + " " + (*at)[2].str();
        for (std::sregex_iterator one(names.begin(), names.end(), name); one != end; ++one) {
            const std::string flag = (*one)[1];
            n_flags++;
            CAPTURE(flag);
            CHECK(
                (known.count(flag) == 1 || !llama_flag_advice(flag, [](const std::string &) { return true; }).empty()));
        }
    }
    CHECK(n_flags > 300);
}

TEST_CASE("flags: a mistyped flag, command or value gets the one that was probably meant") {
    check_refused(cli({"--diffusion-visaul", "-p", "x"}),
                  "unknown flag --diffusion-visaul; did you mean --diffusion-visual?");
    check_refused(cli({"--n_predict", "4"}), "did you mean --n-predict?");
    check_refused(cli({"-temp", "1"}), "did you mean --temp?");
    check_refused(cli({"--ctx", "1"}), "did you mean --ctx-size?");
    check_refused(run("llama-attention", {"floatin"}), "unknown command 'floatin'; did you mean floating?");
    check_refused(run("llama-diffusion-eval", {"sumary", "x"}), "did you mean summary?");
    check_refused(run("llama-diffusion-eval", {"qa", "--modle", "x"}), "did you mean --model?");
    check_refused(run("llama-diffusion-convert", {"imatrx", "-m", "x"}),
                  "unknown command 'imatrx'; did you mean imatrix?");
    check_refused(run("llama-diffusion-convert", {"x", "--ouput", "y"}), "did you mean --output?");
    check_refused(cli({"tokens-frq"}), "did you mean tokens-freq?");
    check_refused(run("llama-diffusion-bench", {"--repetition", "3"}), "did you mean --repetitions?");
    // values that have names
    check_refused(cli({"--diffusion-cache", "dula", "-p", "x"}), "did you mean dual?");
    check_refused(cli({"--diffusion-algorithm", "entrpy", "-p", "x"}), "did you mean entropy?");
    check_refused(cli({"--attn-reduce", "recieved", "-p", "x"}), "did you mean received?");
    check_refused(run("llama-diffusion-bench", {"-m", "x", "--kernels", "our"}), "did you mean ours?");
    check_refused(run("llama-diffusion-convert", {"x", "-o", "y", "--outtype", "q4_km"}), "did you mean q4_k_m?");
    check_refused(run("llama-attention", {"export", "x", "-o", "y", "--format", "cvs"}), "did you mean csv?");
    check_refused(run("llama-attention", {"floating", "x", "--rule", "topk"}), "did you mean top-k?");
    // nothing is near
    for (const char * program : programs) {
        const ProgramResult far = run_any(program, {"--zzzzzz"});
        check_refused(far, "unknown flag --zzzzzz (--help lists the flags)");
    }
    check_refused(run("llama-attention", {"--json", "info"}), "the command comes first");
    check_refused(run("llama-attention", {}), "no command given; the commands are info, cat");
}

TEST_CASE("flags: what lacks a value, and what nobody asked for") {
    check_refused(cli({"-n"}), "-n needs a value (N)");
    check_refused(cli({"-p", "--json"}),
                  "-p needs a value (TEXT), but --json follows; if that is the value, write -p=--json");
    check_refused(cli({"-m", "x", "-p", "Why", "is", "the"}), "unexpected argument 'is'; pass a prompt with -p");
    check_refused(run("llama-diffusion-bench", {"buoy-mdm"}), "unexpected argument 'buoy-mdm'; pass a model with -m");
    check_refused(run("llama-diffusion-convert", {}), "missing: INPUT, -o OUTPUT");
    check_refused(run("llama-attention", {"compare", "one.npz"}), "missing: 2 recordings");
    CHECK(cli_json({"-m", tiny_model("llada"), "-p=--json", "-n", "2"})["prompt_tokens"].size() == 6);
}

TEST_CASE("suggest: what is near") {
    const std::vector<std::string> known = {"-n", "--n-predict", "--top-k", "--top-p", "--diffusion-steps"};
    CHECK(closest("--top-l", known) == "--top-k");
    CHECK(closest("--TOP_P", known) == "--top-p");
    CHECK(closest("--diffusion-setps", known) == "--diffusion-steps"); // a swap is one mistake
    CHECK(closest("--diffusion", known) == "--diffusion-steps");
    CHECK(closest("-N", known) == "-n");
    CHECK(closest("--n", known) == "-n");
    CHECK(closest("-x", known) == "");
    CHECK(closest("", known) == "");
    CHECK(closest("--", known) == "");
    CHECK(closest("--something-else", known) == "");
}
