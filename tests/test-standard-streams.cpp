// Programs that are started with standard streams closed: what they print never ends up in what they write.

#include "support/attn-cli.h"
#include "support/gguf-bytes.h"
#include "support/hf-dir.h"
#include "support/paths.h"
#include "support/random-context.h"
#include "support/rpc-servers.h"

#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include <sys/wait.h>

using namespace buoy;
using namespace buoy::test;

namespace {

namespace fs = std::filesystem;

const std::vector<std::vector<int>> closings = {{0}, {1}, {2}, {0, 1}, {0, 2}, {1, 2}, {0, 1, 2}};

// What a shell does before it starts a program: closes some streams, leads the others nowhere.
std::string redirections(const std::vector<int> & closed) {
    std::string text = " </dev/null >/dev/null 2>/dev/null";
    for (const int fd : closed) {
        text += " " + std::to_string(fd) + (fd == 0 ? "<&-" : ">&-");
    }
    return text;
}

std::string command_line(const std::string & program, const std::vector<std::string> & args) {
    std::string line = "'" + bin_dir() + "/" + program + "'";
    for (const std::string & arg : args) {
        line += " '" + arg + "'";
    }
    return line;
}

// Runs the program with all streams and with some of them closed, and compares what it writes to `output`.
void check_output(const std::string & program, const std::vector<std::string> & args, const std::string & output) {
    const auto bytes_with = [&](const std::vector<int> & closed) {
        fs::remove(output);
        const int status = std::system((command_line(program, args) + redirections(closed)).c_str());
        CHECK(WIFEXITED(status));
        CHECK(WEXITSTATUS(status) < 128);
        return fs::exists(output) ? read_file(output) : "no file";
    };
    const std::string whole = bytes_with({});
    CHECK(whole.size() > 40);
    for (const std::vector<int> & closed : closings) {
        CAPTURE(program);
        CAPTURE(redirections(closed));
        CHECK(bytes_with(closed) == whole);
    }
}

} // namespace

TEST_CASE("standard streams: closed ones leave outputs alone") {
    const std::string dir   = temp_dir();
    const std::string model = random_gguf(small_model("llada"));
    // warns: the rows are too short for blocks of 256
    check_output("llama-diffusion-convert", {model, "-o", dir + "/out.gguf", "--outtype", "q4_k_m", "-v"},
                 dir + "/out.gguf");
    check_output("llama-diffusion-cli", {"-m", model, "--tokens", "1,2,3", "--logits-out", dir + "/logits.npy", "-v"},
                 dir + "/logits.npy");
    const std::string text = buoy::test::write_file(dir, "text.txt", std::string(2000, 'a'));
    check_output("llama-diffusion-cli", {"tokens-freq", "-m", model, "-f", text, "-o", dir + "/freq.json"},
                 dir + "/freq.json");
    check_output("llama-diffusion-convert",
                 {"imatrix", "-m", model, "-f", text, "-c", "64", "--chunks", "1", "-o", dir + "/imatrix.gguf", "-v"},
                 dir + "/imatrix.gguf");
}

TEST_CASE("standard streams: llama-simple and llama-rpc-server open them as well") {
    if (!fs::exists("/proc/self/fd")) {
        return;
    }
    struct Case {
        std::string              program;
        std::vector<std::string> args;
    };
    std::vector<Case> cases = {{"llama-simple", {random_gguf(small_model("llada")), std::string(4000, 'a')}}};
    if (has_rpc_server()) {
        cases.push_back({"llama-rpc-server", {"-p", std::to_string(free_port()), "-t", "1", "-d", "CPU"}});
    }
    for (const Case & one : cases) {
        CAPTURE(one.program);
        const std::string pid_file = temp_dir() + "/pid";
        const std::string shell    = "exec " + command_line(one.program, one.args) + redirections({0, 1, 2});
        // the shell's own id becomes the program's
        const int started =
            std::system(("sh -c 'echo $$ >" + pid_file + "; eval \"$1\"' sh \"" + shell + "\" &").c_str());
        CHECK(started == 0);
        const auto target = [&](int fd) {
            std::ifstream   in(pid_file);
            std::string     pid;
            std::error_code error;
            in >> pid;
            return fs::read_symlink("/proc/" + pid + "/fd/" + std::to_string(fd), error);
        };
        for (int i = 0; i < 6000 && target(2) != "/dev/null"; i++) { // its main begins after the loader
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
        }
        for (const int fd : {0, 1, 2}) {
            CHECK(target(fd) == "/dev/null");
        }
        int pid = 0;
        std::ifstream(pid_file) >> pid;
        if (pid > 1) {
            kill(pid, SIGKILL);
        }
    }
}
