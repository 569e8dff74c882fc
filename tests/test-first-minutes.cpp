// What a new user types first: short answers, long ones, Ctrl-C, narrow terminals, bundled models by name.

#include "buoy/vocab.h"
#include "progress.h"
#include "support/cli.h"
#include "support/gguf-bytes.h"
#include "support/hf-dir.h"
#include "support/paths.h"
#include "support/random-context.h"
#include "text-diff.h"

#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <thread>

#include <fcntl.h>
#include <unistd.h>

using namespace buoy;
using namespace buoy::test;

namespace {

using Ids = std::vector<int32_t>;

std::string bundled(const std::string & name) { return source_dir() + "/models/" + name + ".gguf"; }

ProgramResult run(const std::string & name, const Args & args) { return run_program({name, args, {}, {}, {}}); }

} // namespace

TEST_CASE("first minutes: a model that ends its text at once says so") {
    for (const char * model : {"buoy-mdm", "buoy-arm"}) {
        const ProgramResult hello = cli({"-m", model, "-p", "hello", "-n", "16"});
        CAPTURE(model);
        CHECK(hello.code == 0);
        if (hello.out == "\n") {
            CHECK(contains(hello.err, "the model ended its text at once"));
            CHECK(contains(hello.err, "numbered passages"));
        } else {
            CHECK(hello.err == "");
        }
    }
    CHECK(contains(cli({"-m", "buoy-mdm", "-p", "hello"}).err, "the model ended its text at once"));
    CHECK(cli({"-m", "buoy-mdm", "-p", "Tell a story about Mira and a fox.", "-n", "32"}).err == "");
}

TEST_CASE("first minutes: a run that is too long is refused before it starts, or says what it takes") {
    const Args          args     = {"-m", "buoy-mdm", "-p", "hello"};
    const ProgramResult far      = cli(args + Args{"-n", "100000"});
    const size_t        n_prompt = Vocab::load(bundled("buoy-mdm")).encode_chat({{"user", "hello"}}, true).size();
    check_refused(far, "-c " + std::to_string(n_prompt + 100000));
    CHECK(contains(far.err, "the model was trained for 1024"));
    CHECK(far.seconds < 60); // of hours
    check_refused(cli(args + Args{"-n", "100000", "-c", "2000"}), "-c");

    const std::string   n_all = std::to_string(n_prompt + 1100);
    const ProgramResult warned =
        cli(args + Args{"-n", "1100", "-c", "2000", "--diffusion-steps", "2", "--diffusion-block-length", "1100"});
    CHECK(warned.code == 0);
    CHECK(contains(warned.err, "take " + n_all + " positions, but the model was trained for 1024"));
    CHECK(contains(warned.err, "up to 2 passes over all " + n_all + " positions"));
    const ProgramResult causal = cli({"-m", "buoy-arm", "-p", "hello", "-n", "1100", "-c", "2000"});
    CHECK(contains(causal.err, "up to 1100 passes\n"));
}

TEST_CASE("first minutes: special tokens in the prompt are parsed with --raw only") {
    const std::string path  = bundled("buoy-mdm");
    const Vocab       vocab = Vocab::load(path);
    const std::string text  = "<|user|>hi<|endoftext|><|assistant|>";
    const auto        ids   = [&](const Args & more) {
        return cli_json(Args{"-m", path, "-p", text, "-n", "1", "--no-escape"} + more)["prompt_tokens"].get<Ids>();
    };
    CHECK(ids({"--raw"}) == vocab.encode(text, true, true));
    CHECK(ids({"--raw"}).size() + 10 < vocab.encode(text, true, false).size());
    CHECK(ids({"--raw", "--no-parse-special"}) == vocab.encode(text, true, false));
    CHECK(ids({}) == vocab.encode_chat({{"user", text}}, true)); // which keeps them as text
    const std::string plain = tiny_model("llada");               // without a template
    CHECK(cli_json({"-m", plain, "-p", text, "-n", "1"})["prompt_tokens"].get<Ids>() ==
          Vocab::load(plain).encode(text, true, false));
    check_refused(cli({"-m", plain, "-p", "x", "--no-parse-special"}), "--raw");

    // a template of one's own may begin with BOS, which is not written twice
    const Vocab bos = Vocab::load(bundled("buoy-mdm"));
    const Ids   own =
        cli_json({"-m", "buoy-mdm", "--raw", "-p", bos.piece(bos.bos()) + "hi", "-n", "1"})["prompt_tokens"];
    CHECK(own == bos.encode("hi", true, false));
}

TEST_CASE("first minutes: --infill fills the gaps of README's example") {
    const std::string text =
        "One day Mira went to the [[1]] for tomatoes. There Mira found a hungry [[1]] under a tree. "
        "The [[1]] asked Mira for [[1]] and some tomatoes.";
    const ProgramResult filled = cli({"-m", "buoy-mdm", "--infill", "-p", text});
    CHECK(filled.code == 0);
    CHECK(filled.err == "");
    CHECK(filled.out.find("  ") == std::string::npos);
    CHECK(filled.out.find("[[") == std::string::npos);
    CHECK(contains(filled.out, " for tomatoes. There Mira found a hungry "));
    CHECK(contains(filled.out, " asked Mira for help and some tomatoes."));
    // a gap in the middle holds no end token, one at the end may
    const nlohmann::json middle = cli_json({"-m", "buoy-mdm", "--infill", "-p", "hello [[8]] there"});
    CHECK(contains(middle["text"].get<std::string>(), " there"));
    CHECK(middle["text"].get<std::string>().size() > std::string("hello  there").size());
    const ProgramResult end = cli({"-m", "buoy-mdm", "--infill", "-p", "Mira has a fox. [[16]]"});
    CHECK(contains(end.err, "wrote no text into gap 1"));
}

TEST_CASE("first minutes: the names of bundled models work in every program") {
    const std::string dir  = temp_dir();
    const std::string text = write_file(dir, "text.txt", "Mira lives in Velmar. She has a fox. Oren plays the harp.");
    CHECK(run("llama-diffusion-convert", {"imatrix", "-m", "buoy-mdm", "-f", text, "-o", dir + "/imatrix.gguf"}).code ==
          0);
    CHECK(run("llama-diffusion-convert", {"loss", "-m", "buoy-arm", "-f", text}).code == 0);
    CHECK(run("llama-diffusion-convert", {"buoy-mdm", "-o", dir + "/x.gguf", "--outtype", "q8_0"}).code == 0);
    const ProgramResult simple = run("llama-simple", {"buoy-arm", "Tell a story about Mira and a fox."});
    CHECK(simple.code == 0);
    CHECK(contains(simple.out, "Mira"));
    CHECK(run("llama-diffusion-bench", {"-m", "buoy-mdm", "-p", "4", "-n", "4", "--steps", "2", "-r", "1", "-t", "0"})
              .code == 0);
    CHECK(cli({"tokens-freq", "-m", "buoy-mdm", "-f", text, "-o", dir + "/freq.json"}).code == 0);
    check_refused(cli({"-m", "buoy-mmd", "-p", "x"}), "did you mean buoy-mdm?");
    for (const char * name : {"llama-diffusion-cli", "llama-diffusion-eval", "llama-attention", "llama-diffusion-bench",
                              "llama-diffusion-convert", "llama-diffusion-server", "llama-simple"}) {
        CHECK(run(name, {"--version"}).out.rfind(std::string(name) + " ", 0) == 0);
    }
    CHECK(contains(run("llama-diffusion-convert", {"imatrix", "--version"}).out, "llama-diffusion-convert "));
}

TEST_CASE("first minutes: threads") {
    const Args args = {"-m", tiny_model("llada"), "-p", "x", "-n", "1"};
    CHECK(cli(args + Args{"-t", "0"}).code == 0);
    CHECK(cli(args + Args{"-t", "-1"}).code == 0);
    check_refused(cli(args + Args{"-t", "10000"}),
                  "-t: '10000' is not a number of threads from 1 to 512, or 0 to choose automatically");
    check_refused(run("llama-diffusion-bench", {"-m", "x", "-t", "10000"}), "'10000'");
    check_refused(run("llama-diffusion-convert", {"x", "-o", "y", "-t", "-5"}), "'-5'");
}

TEST_CASE("first minutes: a bar never reaches the last column") {
    for (size_t columns = 0; columns < 120; columns++) {
        for (const std::string & text : {std::string("100 %"), std::string("12/64"), std::string(60, 'x')}) {
            const std::string line = progress_line("loading", 0.5, text, columns);
            CAPTURE(columns);
            CHECK(line.size() < std::max<size_t>(columns, 1));
            CHECK((columns < 60 || line.rfind("loading", 0) == 0));
        }
    }
    CHECK(progress_line("loading", 0.5, "50 %", 80) == "loading [###############...............] 50 %");
    CHECK(progress_line("loading", 0.5, "50 %", 40) == "loading [############............] 50 %");
    CHECK(progress_line("loading", 0.5, "50 %", 20) == "loading 50 %");

    ProgramSpec spec;
    spec.name                  = "llama-diffusion-cli";
    spec.args                  = {"-m", tiny_model("llama"), "-p", "x", "-n", "2", "--no-mmap", "--no-perf"};
    spec.terminal              = true;
    spec.columns               = 40;
    const ProgramResult narrow = run_program(spec);
    CHECK(contains(narrow.err, "loading ["));
    for (size_t at = 0, end = 0; at < narrow.err.size(); at = end + 1) {
        end = std::min(narrow.err.find('\r', at), narrow.err.size());
        CHECK(end - at < 40 + 3); // the codes that clear the line
    }
}

TEST_CASE("a bar that starts again has a rate of its own") {
    const std::string path  = temp_dir() + "/said";
    const int         saved = dup(STDERR_FILENO);
    const int         file  = open(path.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
    REQUIRE(dup2(file, STDERR_FILENO) >= 0);
    {
        Progress bar("first", {"answers"}, "program");
        std::this_thread::sleep_for(std::chrono::seconds(3));
        bar.restart("second");
        bar.update(100, 100);
    }
    dup2(saved, STDERR_FILENO);
    close(saved);
    close(file);
    const std::string said  = read_file(path);
    const std::string begin = "program: second: 100/100 answers, ";
    REQUIRE(said.rfind(begin, 0) == 0);
    CHECK(std::stod(said.substr(begin.size())) > 40.0); // counted from the first on: 33 at most
}

TEST_CASE("first minutes: texts side by side, differences marked") {
    const MarkedTexts plain = mark_differences("By ferry.", "By old  bicycle, he says.", false);
    CHECK(plain.before == "By [-ferry.-]");
    CHECK(plain.after == "By {+old  bicycle, he says.+}");
    const MarkedTexts middle = mark_differences("one two three", "one 2 three", true);
    CHECK(middle.before == "one \033[31mtwo\033[0m three");
    CHECK(middle.after == "one \033[32m2\033[0m three");
    CHECK(mark_differences("", "new", false).after == "{+new+}");
    CHECK(mark_differences("same text", "same text", false).before == "same text");
    CHECK(mark_differences("a\033[2Jb", "", false).before.find('\033') == std::string::npos);

    const Args          args = {"-m",         "buoy-mdm",
                                "-n",         "16",
                                "-p",         "1. Gundo travels by bicycle. 2. Sten travels by ferry. How does Sten travel?",
                                "--attn-edit"};
    const ProgramResult told = cli(args + Args{"drop keys=sinks", "--attn-edit-compare"});
    CHECK(told.code == 0);
    CHECK(contains(told.err, "without the edits: "));
    CHECK(contains(told.err, "with the edits:    "));
    CHECK(contains(told.err, "{+"));
    CHECK(told.out.find("{+") == std::string::npos);
    const ProgramResult same = cli(args + Args{"bias keys=0 +0.0", "--attn-edit-compare"});
    CHECK(contains(same.err, "the edits changed no token"));
    CHECK(same.err.find("without the edits: ") == std::string::npos);
}

#ifdef __linux__ // where /proc shows how far a program is

TEST_CASE("first minutes: Ctrl-C is answered at once, where someone can read it") {
    RandomModel slow;
    slow.n_embd            = 256;
    slow.n_layer           = 8;
    const std::string path = random_gguf(slow);
    for (const bool terminal : {true, false}) {
        ProgramSpec spec;
        spec.name     = "llama-diffusion-cli";
        spec.args     = {"-m", path, "-p", "the", "-n", "1000", "-t", "1", "--no-perf", "-s", "1"};
        spec.terminal = terminal;
        ProgramResult     result;
        const std::string told = "stopping after this step; press Ctrl-C again to quit";
        CHECK(caught([&](int ms) {
            Program program(spec);
            REQUIRE(program.await_mapping(path));
            pause_for(ms);
            program.send(SIGINT);
            result = program.finish();
            return contains(result.err, told) == terminal; // else the model was still being loaded
        }));
        CHECK(result.code == 130);
    }
}

#endif
