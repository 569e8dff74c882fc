// llama-diffusion-cli -cnv: the conversation, its commands, and Ctrl-C.

#include "buoy/vocab.h"
#include "support/cli.h"
#include "support/memory-limit.h"
#include "support/paths.h"

#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace buoy;
using namespace buoy::test;

TEST_CASE("cli: chat keeps the conversation, and its commands work") {
    // both keep the keys and values of what was said; a single run computes everything
    for (const char * arch : {"llama", "sdar"}) {
        const std::string path  = tiny_chat_model(arch);
        const Vocab       vocab = Vocab::load(path);
        const auto        ask   = [&](const std::vector<ChatMessage> & messages) {
            std::string ids;
            for (const int32_t id : vocab.encode_chat(messages, true)) {
                ids += std::to_string(id) + ",";
            }
            return cli_json({"-m", path, "-n", "6", "--tokens", ids})["text"].get<std::string>();
        };
        const Args        args   = {"-m", path, "-cnv", "-n", "6"};
        const std::string first  = ask({{"user", "one"}});
        const std::string second = ask({{"user", "one"}, {"assistant", first}, {"user", "two\nlines"}});

        const ProgramResult talk = cli(args, "one\ntwo\\\nlines\n");
        CHECK(talk.code == 0);
        CHECK(talk.err == "");
        CHECK(talk.out == first + "\n" + second + "\n");
        CHECK(cli(args, "one\n/clear\none").out == first + "\n" + first + "\n");
        CHECK(cli(args, "one\n/exit\none\n").out == first + "\n");
        CHECK(cli(args, "\n  \n").out == "");
        CHECK(cli(args).code == 0); // the end of the input at once
        CHECK(cli(args + Args{"-p", "one"}, "two\\\nlines\n").out == talk.out);
        const ProgramResult help = cli(args, "/help\n/nonsense\n");
        CHECK(help.out == "");
        CHECK(contains(help.err, "/clear"));
        CHECK(contains(help.err, "'/nonsense'"));
        CHECK(cli(args + Args{"-sys", "be"}, "one\n").out == ask({{"system", "be"}, {"user", "one"}}) + "\n");
    }
}

TEST_CASE("cli: chat forgets what does not fit, and says so") {
    const std::string   path  = tiny_chat_model("llada");
    const Vocab         vocab = Vocab::load(path);
    const size_t        n     = vocab.encode_chat({{"user", "one"}}, true).size();
    const Args          args  = {"-m", path, "-cnv", "-n", "4", "-c", std::to_string(n + 8)};
    const ProgramResult talk  = cli(args, "one\none\n" + std::string(100, 'x') + "\none\n");
    CHECK(talk.code == 0);
    CHECK(contains(talk.err, "the oldest question and its answer are forgotten"));
    CHECK(contains(talk.err, "it was left out"));
    const std::string once = cli(args, "one\n").out;
    CHECK(talk.out == once + once + once);

    check_refused(cli({"-m", tiny_model("llada"), "-cnv"}, "one\n"), "no chat template");
    for (const Args & more :
         {Args{"--json"}, Args{"--infill"}, Args{"--raw"}, Args{"--tokens", "1"}, Args{"-p", "-"}}) {
        check_refused(cli(args + more), "-cnv can't be combined");
    }
}

#ifdef __linux__ // where /proc shows how far a program is, and a pipe can be opened from both ends

namespace {

// A chat whose answers take long, and the pipe that it reads from.
struct SlowChat {
    explicit SlowChat(int ms) : path(tiny_chat_model("llada")), dir(temp_dir()), pause_ms(ms) {
        REQUIRE(mkfifo((dir + "/pipe").c_str(), 0600) == 0);
        fd = open((dir + "/pipe").c_str(), O_RDWR | O_CLOEXEC);
        REQUIRE(fd >= 0);
        ProgramSpec spec;
        spec.name  = "llama-diffusion-cli";
        spec.args  = {"-m", path, "-cnv", "-n", "1500", "-t", "1"};
        spec.input = dir + "/pipe";
        program    = std::make_unique<Program>(spec);
        REQUIRE(program->await_mapping(path));
    }
    ~SlowChat() { close(fd); }

    void type(const std::string & text) const {
        CHECK(write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
        pause_for(pause_ms);
    }
    void send(int signal) const {
        program->send(signal);
        pause_for(pause_ms);
    }

    std::string              path, dir;
    int                      pause_ms;
    int                      fd = -1;
    std::unique_ptr<Program> program;
};

} // namespace

TEST_CASE("cli: in a chat Ctrl-C stops the answer, twice at the prompt it leaves; SIGTERM leaves") {
    ProgramResult result;
    CAPTURE(result.err);
    CHECK(caught([&](int ms) {
        SlowChat chat(ms);
        chat.type("one\n");
        chat.send(SIGINT);
        chat.type("/exit\n");
        result = chat.program->finish();
        return result.code == 0 && result.err.empty() && result.out.size() > 1; // else the answer had not begun
    }));
    CHECK(caught([&](int ms) {
        SlowChat chat(ms);
        chat.type("one\n");
        chat.send(SIGTERM);
        result = chat.program->finish();
        return result.code == 130 && result.out.size() > 1;
    }));
    CHECK(caught([&](int ms) {
        SlowChat chat(ms);
        pause_for(ms);
        chat.send(SIGINT);
        chat.send(SIGINT);
        result = chat.program->finish();
        return result.code == 130 && result.out.empty();
    }));
}

#endif

TEST_CASE("cli: input that never ends is refused, not kept") {
    if (!std::filesystem::exists("/dev/zero")) {
        return;
    }
    const std::string model    = tiny_chat_model("llada");
    const std::string dir      = temp_dir();
    std::string       messages = "\\\n"; // a line that goes on, again and again
    while (messages.size() < (36u << 20)) {
        messages += messages;
    }
    std::ofstream(dir + "/continued") << messages;
    struct Case {
        Args        args;
        std::string input;
        std::string words;
    };
    for (const Case & one : {Case{{"-cnv"}, "/dev/zero", "standard input: a line of more than 16 MiB"},
                             Case{{"-cnv"}, dir + "/continued", "standard input: a message of more than 16 MiB"},
                             Case{{"-p", "-"}, "/dev/zero", "standard input has more than 256 MiB"},
                             Case{{"-f", "/dev/zero"}, "", "has more than 256 MiB"},
                             Case{{"--tokens", "@/dev/zero"}, "", "has more than 256 MiB"}}) {
        ProgramSpec spec;
        spec.name  = "llama-diffusion-cli";
        spec.args  = Args{"-m", model, "--no-perf"} + one.args;
        spec.input = one.input;
        const MemoryLimit   limit(uint64_t{3} << 30);
        const ProgramResult result = run_program(spec);
        CAPTURE(result.err);
        CHECK_FALSE(result.timed_out);
        CHECK(result.code == 1);
        CHECK(result.is_one_line());
        CHECK(result.err.find(one.words) != std::string::npos);
    }
}
