// llama-diffusion-cli before the first token: Ctrl-C while it waits, loads or reads a prompt, and its bars on a terminal.

#include "support/cli.h"
#include "support/gguf-bytes.h"
#include "support/paths.h"
#include "support/random-context.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace buoy;
using namespace buoy::test;

namespace {

ProgramSpec spec_of(const Args & args) {
    ProgramSpec spec;
    spec.name = "llama-diffusion-cli";
    spec.args = args;
    spec.env  = {{"LLAMA_ARG_NO_PERF", "1"}, {"LLAMA_ARG_THREADS", "1"}};
    return spec;
}

ProgramResult on_terminal(const Args & args) {
    ProgramSpec spec = spec_of(args);
    spec.terminal    = true;
    return run_program(spec);
}

std::string tokens_file(size_t n) {
    std::string ids;
    for (const int32_t id : random_tokens(n, 256)) {
        ids += std::to_string(id) + ",";
    }
    return "@" + write_file(temp_dir(), "tokens", ids);
}

} // namespace

TEST_CASE("cli interrupt: bars for loading and for a long prompt, on a terminal only") {
    const Args          args   = {"-m", tiny_model("llama"), "--tokens", tokens_file(1100), "-n", "2", "--no-mmap"};
    const ProgramResult result = on_terminal(args);
    CHECK(result.code == 0);
    CHECK(contains(result.err, "\r\033[Kloading ["));
    CHECK(contains(result.err, "] 100 %"));
    CHECK(contains(result.err, "\r\033[Kprompt [#"));
    CHECK(result.err.substr(result.err.size() - 4) == "\r\033[K"); // cleared
    CHECK(result.out == cli(args).out);
    CHECK(cli(args).err == "");
    // a warning does not end up behind a bar
    const std::string warned = on_terminal(args + Args{"--diffusion-steps", "2"}).err;
    CHECK(contains(warned, "\r\033[Kllama-diffusion-cli: warning"));
}

#ifdef __linux__ // where /proc shows how far a program is, and a pipe can be opened from both ends

TEST_CASE("cli interrupt: Ctrl-C while a prompt is awaited") {
    const std::string pipe = temp_dir() + "/pipe";
    REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
    const int fd = open(pipe.c_str(), O_RDWR | O_CLOEXEC);
    REQUIRE(fd >= 0);
    ProgramSpec spec = spec_of({"-m", tiny_model("llada"), "-p", "-", "-n", "4"});
    spec.input       = pipe;
    Program program(spec);
    REQUIRE(program.await_handler(SIGINT));
    pause_for(500);
    program.send(SIGINT);
    const ProgramResult result = program.finish();
    close(fd);
    CHECK(result.code == 130);
    CHECK(result.out == "");
    CHECK(result.err == "");
}

TEST_CASE("cli interrupt: Ctrl-C while the model is loaded") {
    RandomModel large;
    large.n_embd           = 512;
    large.n_layer          = 8;
    large.n_vocab          = 4096;
    const std::string path = random_gguf(large);
    for (const int signal : {SIGINT, SIGTERM}) {
        Program program(spec_of({"-m", path, "-p", "the", "-n", "64", "--no-mmap", "--json"}));
        REQUIRE(program.await_handler(signal));
        program.send(signal);
        const ProgramResult result = program.finish();
        CHECK(result.code == 130);
        CHECK(result.out == ""); // no step was made
        CHECK(result.err == "");
    }
}

TEST_CASE("cli interrupt: Ctrl-C while a long prompt is read") {
    RandomModel slow;
    slow.arch              = "llama";
    slow.n_embd            = 256;
    slow.n_layer           = 8;
    const std::string path = random_gguf(slow);
    ProgramResult     result;
    REQUIRE(caught([&](int ms) {
        Program program(spec_of({"-m", path, "--tokens", tokens_file(4000), "-n", "8", "--json", "-fa", "off"}));
        REQUIRE(program.await_mapping(path));
        pause_for(ms);
        program.send(SIGINT);
        result = program.finish();
        return result.code != 130 || !result.out.empty(); // else the model was still being loaded
    }));
    CAPTURE(result.out.substr(0, 200));
    CHECK(result.code == 130);
    CHECK(result.err == "");
    const nlohmann::json json = nlohmann::json::parse(result.out, nullptr, false);
    REQUIRE(json.is_object());
    CHECK(json["tokens"].empty());
    CHECK(json["stopped"] == true);
    CHECK(json["forwards"] < 8);
}

#endif
