// llama-diffusion-cli as users meet it: whatever is wrong gives the documented exit code and one line that names it.

#include "buoy/device.h"
#include "support/gguf-bytes.h"
#include "support/gguf-faults.h"
#include "support/paths.h"
#include "support/random-context.h"
#include "support/run-program.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <sys/stat.h>
#include <unistd.h>

using namespace buoy;
using namespace buoy::test;

namespace {

namespace fs = std::filesystem;

using Args = std::vector<std::string>;
using Env  = std::map<std::string, std::string>;

const std::string prefix = "llama-diffusion-cli: ";

RandomModel tiny(const std::string & arch) {
    RandomModel model;
    model.arch    = arch;
    model.n_embd  = 32;
    model.n_layer = 1;
    return model;
}

const std::string & diffusion_model() {
    static const std::string path = random_gguf(tiny("llada"));
    return path;
}

const std::string & ar_model() {
    static const std::string path = random_gguf(tiny("llama"));
    return path;
}

ProgramSpec spec_of(const Args & args, const Env & env = {}) {
    ProgramSpec spec;
    spec.name = "llama-diffusion-cli";
    spec.args = args;
    spec.env  = env;
    spec.env.emplace("LLAMA_ARG_NO_PERF", "1"); // what is left on standard error is about faults
    return spec;
}

ProgramResult cli(const Args & args, const Env & env = {}) { return run_program(spec_of(args, env)); }

// Nothing on standard output, and the culprit in the one line on standard error.
void check_fails(const ProgramResult & result, int code, const std::string & culprit) {
    CAPTURE(result.err);
    CHECK_FALSE(result.timed_out);
    CHECK(result.code == code);
    CHECK(result.out == "");
    CHECK(result.is_one_line());
    CHECK(result.err.rfind(prefix, 0) == 0);
    CHECK(result.err.find(culprit) != std::string::npos);
}

void check_works(const ProgramResult & result) {
    CAPTURE(result.err);
    CHECK(result.code == 0);
    CHECK(result.err == "");
    CHECK(result.out.size() > 1);
    CHECK(result.out.back() == '\n');
}

std::string read_bytes(const std::string & path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

} // namespace

TEST_CASE("cli faults: without any, both kinds of model run") {
    check_works(cli({"-m", diffusion_model(), "-p", "the", "-n", "8"}));
    check_works(cli({"-m", ar_model(), "-p", "the", "-n", "8"}));
}

TEST_CASE("cli faults: broken GGUF files") {
    const std::string            dir    = temp_dir();
    const std::vector<GgufFault> faults = gguf_faults();
    CHECK(faults.size() >= 20);
    for (const GgufFault & fault : faults) {
        CAPTURE(fault.name);
        const std::string   path   = write_file(dir, "broken.gguf", fault.bytes());
        const ProgramResult result = cli({"-m", path, "-p", "x"});
        check_fails(result, 1, path);
        CHECK(result.err == prefix + path + ": " + fault.message + "\n");
    }
}

TEST_CASE("cli faults: a model that was cut off") {
    const std::string dir   = temp_dir();
    const std::string whole = read_bytes(diffusion_model());
    constexpr size_t  n     = 40;
    for (size_t i = 0; i < n; ++i) {
        CAPTURE(i);
        const std::string path = write_file(dir, "cut.gguf", whole.substr(0, i * whole.size() / n));
        check_fails(cli({"-m", path, "-p", "x"}), 1, path + ": ");
    }
    check_fails(cli({"-m", write_file(dir, "cut.gguf", whole.substr(0, whole.size() - 1)), "-p", "x"}), 1, "truncated");
}

TEST_CASE("cli faults: sound files that are no model") {
    const std::string dir                   = temp_dir();
    GgufBytes         file                  = parse_gguf(read_bytes(diffusion_model()));
    file.pair("general.architecture").value = gguf_string("no-such-arch");
    check_fails(cli({"-m", write_file(dir, "arch.gguf", file.build()), "-p", "x"}), 1,
                "found 'no-such-arch', which libllama does not know either");
    file = parse_gguf(read_bytes(diffusion_model()));
    file.erase_tensor("output_norm.weight");
    check_fails(cli({"-m", write_file(dir, "tensor.gguf", file.build()), "-p", "x"}), 1,
                "'output_norm.weight': missing");
    file = parse_gguf(read_bytes(diffusion_model()));
    file.erase_pair("tokenizer.ggml.mask_token_id");
    check_fails(cli({"-m", write_file(dir, "mask.gguf", file.build()), "-p", "x"}), 1, "mask_token_id': missing");
    check_fails(cli({"-m", write_file(dir, "sample.gguf", gguf_sample().build()), "-p", "x"}), 1, "sample.gguf: key '");
}

TEST_CASE("cli faults: what is not a file to read") {
    const std::string dir = temp_dir();
    check_fails(cli({"-m", dir + "/none.gguf", "-p", "x"}), 1, dir + "/none.gguf: cannot open: No such file");
    check_fails(cli({"-m", dir, "-p", "x"}), 1, dir + ": expected a regular file, found a directory");
    check_fails(cli({"-m", "", "-p", "x"}), 1, "-m");
    check_fails(cli({"-m", dir + "/\x1b[2J\n", "-p", "x"}), 1, "/\\x1b[2J\\x0a: cannot open");

    REQUIRE(mkfifo((dir + "/fifo").c_str(), 0600) == 0);
    check_fails(cli({"-m", dir + "/fifo", "-p", "x"}), 1, "/fifo: expected a regular file, found a pipe");

    const std::string locked = write_file(dir, "locked.gguf", "GGUF");
    REQUIRE(chmod(locked.c_str(), 0) == 0);
    if (geteuid() == 0) {
        MESSAGE("root reads every file, so the unreadable one is not tried");
    } else {
        check_fails(cli({"-m", locked, "-p", "x"}), 1, locked + ": cannot open: Permission denied");
    }
}

TEST_CASE("cli faults: command line") {
    struct Case {
        Args        args;
        std::string culprit;
    };
    const std::vector<Case> cases = {
        {{"--no-such-flag"}, "--no-such-flag"},
        {{"--\x1b[2J\n"}, "--\\x1b[2J"},
        {{"stray"}, "stray"},
        {{"-n"}, "-n"},
        {{"-n", "x"}, "x"},
        {{"-n", "1e3"}, "1e3"},
        {{"-n", "99999999999"}, "99999999999"},
        {{"-n", "0"}, "-n"},
        {{"-n", "-5"}, "-5"},
        {{"-t", "513"}, "513"},
        {{"-t", "10000"}, "10000"},
        {{"-t", "two"}, "two"},
        {{"-c", "-1"}, "-1"},
        {{"-ngl", "-3"}, "-3"},
        {{"-fa", "maybe"}, "maybe"},
        {{"-ctk", "q9"}, "q9"},
        {{"-dev", "NoSuchGpu"}, "'NoSuchGpu'"},
        {{"-s", "x"}, "x"},
        {{"--diffusion-steps", "0"}, "0"},
        {{"--diffusion-block-length", "-1"}, "-1"},
        {{"--tokens", "1,x"}, "'x'"},
        {{"--tokens", "1,-2"}, "'-2'"},
        {{"--tokens", "99999999999"}, "'99999999999'"},
        {{"--tokens", "5,320"}, "320"},
        {{"--tokens", "@/no/such/file"}, "'/no/such/file'"},
        {{"-f", "/no/such/file"}, "'/no/such/file'"},
        {{"--logits-out", "/no/such/dir/x.npy"}, "/no/such/dir/x.npy"},
        {{"--logits-out", "/"}, "/"},
    };
    for (const Case & c : cases) {
        CAPTURE(c.culprit);
        Args args{"-m", diffusion_model()};
        if (c.args[0] != "-f" && c.args[0] != "--tokens") {
            args.insert(args.end(), {"-p", "the"});
        }
        args.insert(args.end(), c.args.begin(), c.args.end());
        check_fails(cli(args), 1, c.culprit);
    }
    check_fails(cli({}), 1, "no prompt given");
}

TEST_CASE("cli faults: environment") {
    for (const auto & [name, value] : Env{{"LLAMA_ARG_THREADS", "x"},
                                          {"LLAMA_ARG_CTX_SIZE", "-1"},
                                          {"LLAMA_ARG_N_PREDICT", "many"},
                                          {"LLAMA_ARG_FLASH_ATTN", "maybe"}}) {
        CAPTURE(name);
        check_fails(cli({"-m", diffusion_model(), "-p", "x"}, {{name, value}}), 1, name);
    }
    // what the command line says is not asked of the environment; an empty variable is none
    check_works(cli({"-m", diffusion_model(), "-p", "x", "-n", "2", "-t", "1"}, {{"LLAMA_ARG_THREADS", "x"}}));
    check_works(cli({"-m", diffusion_model(), "-p", "x", "-n", "2"}, {{"LLAMA_ARG_THREADS", ""}}));
}

TEST_CASE("cli faults: prompt and context") {
    check_fails(cli({"-m", diffusion_model(), "--tokens", "1,2,3,4", "-c", "4", "-n", "2"}), 1, "context");
    check_fails(cli({"-m", ar_model(), "--tokens", "1,2,3,4", "-c", "4", "-n", "2"}), 1, "context");
    check_fails(cli({"-m", ar_model(), "-p", "", "-n", "2"}), 1, "the prompt is empty");
    check_works(cli({"-m", diffusion_model(), "-p", "", "-n", "4"}));
    check_fails(cli({"-m", diffusion_model(), "-f", write_file(temp_dir(), "empty", ""), "-n", "4"}), 1, "empty'");
    check_fails(cli({"-m", diffusion_model(), "--logits-out", temp_dir() + "/x.npy"}), 1, "--logits-out");
    // more positions than this machine has memory for, and more than 32 bits count
    check_fails(cli({"-m", diffusion_model(), "-p", "x", "-n", "2147483646", "-c", "2147483647"}), 2, "out of memory");
    check_fails(cli({"-m", diffusion_model(), "-p", "x", "-n", "2147483647"}), 1, "use a smaller -n");
}

TEST_CASE("cli faults: layers for a GPU that is not there") {
    const std::vector<DeviceInfo> devices = list_devices();
    if (std::any_of(devices.begin(), devices.end(), [](const DeviceInfo & device) { return device.is_gpu; })) {
        MESSAGE("there is a GPU");
        return;
    }
    const ProgramResult result = cli({"-m", diffusion_model(), "-p", "the", "-n", "2", "-ngl", "99"});
    CHECK(result.code == 0);
    CHECK(result.out.size() > 1);
    CHECK(result.err == prefix + "warning: -ngl 99 has no effect: no GPU device was found, running on the CPU\n");
}

TEST_CASE("cli faults: standard output that takes nothing") {
    for (const Args & args : {Args{"-m", diffusion_model(), "-p", "the", "-n", "2"}, Args{"--help"}, Args{"--version"},
                              Args{"--list-devices"}}) {
        CAPTURE(args[0]);
        ProgramSpec spec   = spec_of(args);
        spec.stdout_closed = true;
        check_fails(run_program(spec), 2, "cannot write to standard output");
        if (fs::exists("/dev/full")) {
            spec.stdout_closed = false;
            spec.output        = "/dev/full";
            check_fails(run_program(spec), 2, "cannot write to standard output");
        }
    }
    // who prints nothing needs no standard output, and the file does not end up in its place
    const std::string path = temp_dir() + "/logits.npy";
    ProgramSpec       spec = spec_of({"-m", diffusion_model(), "--tokens", "1,2", "--logits-out", path});
    spec.stdout_closed     = true;
    CHECK(run_program(spec).code == 0);
    CHECK(fs::file_size(path) == 128 + 2 * 320 * sizeof(float));
}

TEST_CASE("cli faults: a locale with a decimal comma changes nothing") {
    const Args    args{"-m", diffusion_model(), "-p", "the", "-n", "8"};
    ProgramResult result = cli(args, {{"LC_ALL", "de_DE.UTF-8"}, {"LANG", "de_DE.UTF-8"}});
    check_works(result);
    CHECK(result.out == cli(args, {{"LC_ALL", "C"}}).out);
}

#ifdef __linux__ // where /proc shows how far a program is

TEST_CASE("cli faults: one Ctrl-C shows what is there, two end at once") {
    for (const int signal : {SIGINT, SIGTERM}) {
        ProgramResult text;
        CHECK(caught([&](int ms) {
            Program once(spec_of({"-m", diffusion_model(), "-p", "the", "-n", "1500", "-t", "1"}));
            REQUIRE(once.await_mapping(diffusion_model()));
            pause_for(ms);
            once.send(signal);
            text = once.finish();
            return !text.out.empty(); // else the model was still being loaded
        }));
        CAPTURE(text.err);
        CHECK(text.code == 130);
        CHECK(text.err == "");
        CHECK(text.out.size() > 1);
        CHECK(text.out.back() == '\n');
    }
    // one step takes seconds here, so the second signal comes before the first has been heeded
    RandomModel slow       = tiny("llada");
    slow.n_embd            = 128;
    slow.n_layer           = 8;
    const std::string path = random_gguf(slow);
    Program           twice(spec_of({"-m", path, "-p", "the", "-n", "4000", "-t", "1"}));
    REQUIRE(twice.await_mapping(path));
    pause_for(300);
    twice.send(SIGINT);
    pause_for(50);
    twice.send(SIGINT);
    const ProgramResult nothing = twice.finish();
    CHECK(nothing.code == 130);
    CHECK(nothing.out == "");
    CHECK(nothing.err == "");
}

TEST_CASE("cli faults: the model file shrinks while it is in use") {
    const std::string path = random_gguf(tiny("llada"));
    Program           program(spec_of({"-m", path, "-p", "the", "-n", "1500", "-t", "2"}));
    REQUIRE(program.await_mapping(path));
    fs::resize_file(path, 0);
    // noticed at the end of loading or in the middle of a step, as it happens
    check_fails(program.finish(), 2, "shrank");

    // what the step would get from the system
    Program struck(spec_of({"-m", diffusion_model(), "-p", "the", "-n", "1500", "-t", "2"}));
    REQUIRE(struck.await_handler(SIGBUS));
    REQUIRE(struck.await_mapping(diffusion_model()));
    struck.send(SIGBUS);
    check_fails(struck.finish(), 2, "the model file shrank or could not be read while it was in use");
}

#endif
