// --diffusion-visual on a terminal, and its files.

#include "support/cli.h"
#include "support/paths.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

using namespace buoy;
using namespace buoy::test;

namespace {

std::string hex_escape(char c) {
    const char * const digits = "0123456789abcdef";
    return {'\\', 'x', digits[(c >> 4) & 15], digits[c & 15]};
}

std::string read_file(const std::string & path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

// What a terminal of endless height shows in the end, of ASCII and of what our programs send.
std::vector<std::string> screen_of(const std::string & sent) {
    std::vector<std::string> rows(1);
    size_t                   x = 0, y = 0;
    for (size_t i = 0; i < sent.size(); i++) {
        if (sent[i] == '\r') {
            x = 0;
        } else if (sent[i] == '\n') {
            y++;
            rows.resize(std::max(rows.size(), y + 1));
        } else if (sent.compare(i, 2, "\033[") == 0) {
            const size_t      end    = sent.find_first_of("AJKhlm", i);
            const std::string number = sent.substr(i + 2, end - i - 2);
            if (sent[end] == 'A') {
                y -= std::stoul(number);
            } else if (sent[end] == 'J' || sent[end] == 'K') {
                rows[y].resize(std::min(rows[y].size(), x));
                rows.resize(sent[end] == 'J' ? y + 1 : rows.size());
            }
            i = end;
        } else {
            rows[y].resize(std::max(rows[y].size(), x + 1), ' ');
            rows[y][x++] = sent[i];
        }
    }
    return rows;
}

size_t count(const std::string & text, const std::string & part) {
    size_t n = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
        n++;
    }
    return n;
}

Args args_of(const Args & more) {
    // ends are written as text, so that the answer has all its tokens
    return Args{"-m", tiny_model("llada"), "-p", "the", "-n", "8", "--ignore-eos"} + more;
}

ProgramResult on_terminal(const Args & more, bool both, const std::map<std::string, std::string> & env = {}) {
    ProgramSpec spec;
    spec.name         = "llama-diffusion-cli";
    spec.args         = args_of(more);
    spec.env          = {{"LLAMA_ARG_NO_PERF", "1"}, {"LLAMA_ARG_THREADS", "1"}, {"TERM", "xterm"}};
    spec.terminal     = true;
    spec.terminal_out = both;
    for (const auto & [name, value] : env) {
        spec.env[name] = value;
    }
    return run_program(spec);
}

} // namespace

TEST_CASE("cli visual: every step is drawn, for as long as was asked, and that is no part of the timings") {
    const Args          args   = {"--diffusion-visual", "--diffusion-visual-delay", "100", "--json"};
    const ProgramResult result = on_terminal(args, false);
    REQUIRE(result.code == 0);
    for (int step = 1; step <= 8; step++) {
        CHECK(contains(result.err, "step " + std::to_string(step) + " · "));
    }
    const double decode_ms = nlohmann::json::parse(result.out)["timings"]["decode_ms"];
    CHECK(decode_ms > 0);
    CHECK(result.seconds * 1000 >= decode_ms + 7 * 100 - 10); // a wait before each frame but the first
    // nobody waits where nobody looks
    CHECK(cli(args_of({"--diffusion-visual", "--diffusion-visual-delay", "10000"})).seconds < 60);
}

TEST_CASE("cli visual: the last frame stays, and the answer is on a terminal once") {
    std::string answer = cli(args_of({})).out;
    answer             = answer.substr(0, answer.size() - 1);
    const Args args    = {"--diffusion-visual", "--diffusion-visual-delay", "20"};
    // standard output elsewhere: the frame is all that the terminal has
    const ProgramResult apart = on_terminal(args, false);
    CHECK(apart.out == answer + "\n");
    const auto kept = screen_of(apart.err);
    CHECK(std::any_of(kept.begin(), kept.end(), [](const auto & row) { return contains(row, "step 8 "); }));
    CHECK(contains(apart.err, "\033[?25h")); // and the cursor is back
    // the same terminal: the answer takes the place of the frame's text
    const ProgramResult both = on_terminal(args, true);
    const auto          last = screen_of(both.err);
    std::string         text;
    for (const std::string & row : last) {
        text += row + "\n";
    }
    CHECK(count(text, "step 8 ") == 1);
    CHECK(count(text, "step 7 ") == 0);
    const std::string tail = both.err.substr(both.err.rfind("\033[J") + 3);
    std::string       sent; // a terminal makes newlines so, and gets no control characters
    for (const char c : answer + "\n") {
        const bool control = (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f;
        sent += c == '\n' ? "\r\n" : control ? hex_escape(c) : std::string(1, c);
    }
    CHECK(tail.rfind(sent + "\033[2mstep 8 ", 0) == 0);
}

TEST_CASE("cli visual: colours and cursor movements only where they are wanted") {
    const Args args = {"--diffusion-visual", "--diffusion-visual-delay", "0"};
    CHECK(contains(on_terminal(args, false).err, "\033[2m"));
    CHECK(!contains(on_terminal(args, false, {{"NO_COLOR", "1"}}).err, "\033[2m"));
    CHECK(contains(on_terminal(args, false, {{"NO_COLOR", "1"}}).err, "\033[J"));
    CHECK(!contains(on_terminal(args, false, {{"TERM", "dumb"}}).err, "\033[J"));
}

TEST_CASE("cli visual: files are made without a terminal, and have the command and every step") {
    const std::string dir = temp_dir();
    const std::string out = cli(args_of({})).out;
    for (const std::string name : {"a b.cast", "run.svg", "run.gif"}) {
        const std::string   path   = dir + "/" + name;
        const ProgramResult result = cli(args_of({"--diffusion-visual-out", path}));
        CHECK(result.code == 0);
        CHECK(result.out == out);
        CHECK(result.err == "llama-diffusion-cli: saved 8 steps to " + path + "\n");
        CHECK(std::filesystem::file_size(path) > 1000);
    }
    const std::string cast = read_file(dir + "/a b.cast");
    CHECK(contains(cast, "llama-diffusion-cli -m " + tiny_model("llada") + " -p the -n 8 --ignore-eos"));
    CHECK(contains(cast, " --diffusion-visual-out \\\"" + dir + "/a b.cast\\\"\""));
    for (int step = 1; step <= 8; step++) {
        CHECK(count(cast, "step " + std::to_string(step) + " · ") == 1);
    }
    CHECK(contains(cast, "8 steps · 8 tokens"));
    // the default, as asked, and both at once
    CHECK(contains(read_file(dir + "/run.svg"), "animation-delay:150ms"));
    const Args again = {"--diffusion-visual-out", dir + "/run.svg", "--diffusion-visual-delay", "200"};
    check_refused(cli(args_of(again)), "--force");
    CHECK(cli(args_of(again + Args{"--force", "--diffusion-visual"})).code == 0);
    CHECK(contains(read_file(dir + "/run.svg"), "animation-delay:200ms"));
}

TEST_CASE("cli visual: what can't be saved is refused before the model is loaded") {
    const std::string dir = temp_dir();
    check_refused(cli({"-m", "none.gguf", "-p", "x", "--diffusion-visual-out", dir + "/a.mp4"}), ".gif, .svg or .cast");
    check_refused(cli({"-m", "none.gguf", "-p", "x", "--diffusion-visual-out", dir + "/no/a.gif"}), "a.gif");
    check_refused(cli({"-m", "none.gguf", "-cnv", "--diffusion-visual-out", dir + "/a.gif"}), "-cnv");
    check_refused(cli(args_of({"--logits-out", dir + "/a.npy", "--diffusion-visual-out", dir + "/a.gif"})),
                  "--logits-out");
    check_refused(cli({"-m", tiny_model("llama"), "-p", "x", "--diffusion-visual-out", dir + "/a.gif"}),
                  "autoregressive");
    check_refused(cli(args_of({"--force"})), "--diffusion-visual-out");
    CHECK(contains(cli(args_of({"--diffusion-visual-delay", "5"})).err, "has no effect"));
    CHECK(std::filesystem::is_empty(dir));
}
