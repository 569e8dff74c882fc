#include "support/hf-dir.h"
#include "support/paths.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sys/wait.h>

using namespace buoy::test;

namespace {

struct Run {
    int         code = 0;
    std::string out;
    std::string err;

    bool one_line() const { return std::count(err.begin(), err.end(), '\n') == 1 && err.back() == '\n'; }
};

Run run(const std::string & arguments, const std::string & before = "") {
    static const std::string dir = temp_dir();
    const std::string        command =
        before + " '" + bin_dir() + "/llama-diffusion-convert' " + arguments + " >" + dir + "/out 2>" + dir + "/err";

    Run       result;
    const int status = std::system(command.c_str());
    result.code      = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    result.out       = read_file(dir + "/out");
    result.err       = read_file(dir + "/err");
    return result;
}

} // namespace

TEST_CASE("llama-diffusion-convert: exit codes and lines") {
    const std::string input  = tiny_checkpoint("Qwen3ForCausalLM").write();
    const std::string output = temp_dir() + "/out.gguf";

    const Run good = run(input + " -o " + output + " --outtype q8_0");
    CHECK(good.code == 0);
    CHECK(good.out == output + "\n");
    CHECK(good.err == "");
    CHECK(read_file(output).compare(0, 4, "GGUF") == 0);

    const Run again = run(input + " -o " + output);
    CHECK(again.code == 1);
    CHECK(again.one_line());
    CHECK(again.err.find("--force") != std::string::npos);
    CHECK(run(input + " -o " + output + " --force -v").out.find("blk.0.attn_q_norm.weight") != std::string::npos);

    for (const std::string & wrong :
         {std::string("/no/such/dir -o x.gguf"), input, input + " -o", input + " -o x.gguf --outtype q9",
          input + " -o x.gguf --no-such-flag", input + " -o x.gguf -t -3", std::string()}) {
        CAPTURE(wrong);
        const Run result = run(wrong);
        CHECK(result.code == 1);
        CHECK(result.out == "");
        CHECK(result.one_line());
    }
    const Run help = run("--help");
    CHECK(help.code == 0);
    CHECK(help.out.find("--outtype") != std::string::npos);
}

TEST_CASE("llama-diffusion-convert: a full disk") {
    const std::string input  = tiny_checkpoint("Qwen3ForCausalLM").write();
    const std::string place  = temp_dir();
    const Run         result = run(input + " -o " + place + "/out.gguf --outtype f32", "ulimit -f 20;");
    CHECK(result.code == 2);
    CHECK(result.one_line());
    CHECK(std::filesystem::is_empty(place));
}
