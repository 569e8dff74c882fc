// llama-diffusion-eval on the bundled twins: a whole run, killed and resumed, in shards, stopped, and what it refuses.

#include "support/cli.h"
#include "support/gguf-bytes.h"
#include "support/hf-dir.h"
#include "support/paths.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <random>
#include <thread>

using namespace buoy;
using namespace buoy::test;

namespace {

ProgramSpec spec_of(const Args & args) {
    ProgramSpec spec;
    spec.name        = "llama-diffusion-eval";
    spec.args        = args;
    spec.env         = {{"LLAMA_ARG_THREADS", "1"}};
    spec.seconds_max = 1000;
    return spec;
}

ProgramResult eval(const Args & args) { return run_program(spec_of(args)); }

Args questions(const std::string & output, const Args & more = {}) {
    return Args{"qa",
                "-m",
                "buoy-mdm,buoy-arm",
                "-d",
                source_dir() + "/models/heldout-500.jsonl",
                "--template",
                source_dir() + "/models/qa-template.txt",
                "-n",
                "8",
                "-o",
                output} +
           more;
}

// sanitizers make our kernels many times slower
const size_t n_questions = is_sanitized() ? 3 : 7;
const int    n_kills     = is_sanitized() ? 4 : 10;

const Args many_conditions = {
    "--limit", std::to_string(n_questions), "--gold-position", "1,4", "--noise", "2", "--shuffle", "--contradict"};

// One uninterrupted run, made once.
struct Reference {
    std::string bytes;
    std::string table;
    double      seconds = 0;
};

const Reference & reference() {
    static const Reference made = [] {
        const std::string   path   = temp_dir() + "/reference.jsonl";
        const ProgramResult result = eval(questions(path, many_conditions));
        CAPTURE(result.err);
        CHECK(result.code == 0);
        return Reference{read_file(path), result.out, result.seconds};
    }();
    return made;
}

size_t size_of(const std::string & path) {
    std::error_code missing;
    const auto      size = std::filesystem::file_size(path, missing);
    return missing ? 0 : static_cast<size_t>(size);
}

// Waits until the file is larger than that; false where the program takes too long.
bool await_growth(const std::string & path, size_t size) {
    for (int i = 0; i < 150000 && size_of(path) <= size; i++) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return size_of(path) > size;
}

} // namespace

TEST_CASE("eval cli: a run has a line for each answer, and a table") {
    const Reference & ran = reference();
    CHECK(std::count(ran.bytes.begin(), ran.bytes.end(), '\n') == static_cast<std::ptrdiff_t>(1 + 2 * 7 * n_questions));
    CHECK(contains(ran.table, "buoy-mdm  gold-position=4"));
    CHECK(contains(ran.table, "buoy-mdm - buoy-arm"));
    const std::string   dir  = temp_dir();
    const ProgramResult json = eval(Args{"summary", write_file(dir, "r.jsonl", ran.bytes), "--json"});
    CHECK(json.code == 0);
    const auto parsed = nlohmann::json::parse(json.out, nullptr, false);
    REQUIRE(parsed.is_object());
    CHECK(parsed["complete"] == true);
    CHECK(parsed["scores"].size() == 14);
    // the twins can't know what the passages say, and read it there
    for (const auto & cell : parsed["scores"]) {
        CAPTURE(cell.dump());
        if (cell["condition"] == "passages=5") {
            CHECK(cell["acc"]["mean"].get<double>() > 0.7);
            CHECK(cell["gain_acc"]["mean"].get<double>() > 0.3);
        }
        CHECK((cell["condition"] == "contradict") == cell["misled"].is_object());
    }
    CHECK(contains(eval({"summary", dir + "/r.jsonl", "--csv"}).out,
                   "buoy-arm,,closed-book," + std::to_string(n_questions) + ","));
    CHECK(eval({"summary", dir + "/r.jsonl"}).out == ran.table);
}

TEST_CASE("eval cli: killed ten times at random, the file is that of one run") {
    const std::string path = temp_dir() + "/killed.jsonl";
    std::mt19937      random(10);
    for (int i = 0; i < n_kills; i++) {
        const size_t before = size_of(path);
        Program      program(spec_of(questions(path, many_conditions)));
        CHECK(await_growth(path, before));
        const double most = reference().seconds * 0.06;
        std::this_thread::sleep_for(std::chrono::duration<double>(most * static_cast<double>(random()) / 4294967296.0));
        program.send(SIGKILL);
        CHECK(program.finish().code == 128 + SIGKILL);
    }
    CHECK(size_of(path) < reference().bytes.size());
    CHECK(reference().bytes.rfind(read_file(path), 0) == 0);
    write_file(path, read_file(path) + "{\"model\":\"buoy"); // as if killed in the middle of a line
    const ProgramResult result = eval(questions(path, many_conditions));
    CHECK(result.code == 0);
    CHECK(read_file(path) == reference().bytes);
    CHECK(result.out == reference().table);
}

TEST_CASE("eval cli: shards merged are the file of one run, with any number of threads") {
    const std::string dir    = temp_dir();
    Args              shards = {"merge", "-o", dir + "/merged.jsonl"};
    for (const char * shard : {"3/3", "1/3", "2/3"}) {
        shards.push_back(dir + "/" + shard[0] + ".jsonl");
        CHECK(eval(questions(shards.back(), many_conditions + Args{"--shard", shard, "-t", "2"})).code == 0);
    }
    const ProgramResult result = eval(shards);
    CAPTURE(result.err);
    CHECK(result.code == 0);
    CHECK(read_file(dir + "/merged.jsonl") == reference().bytes);
    check_refused(eval(shards), "merged.jsonl");
    check_refused(eval({"merge", shards[3], "-o", dir + "/other"}), "shard 1/3 is missing");
}

TEST_CASE("eval cli: Ctrl-C ends behind a whole line, with 130") {
    const std::string path = temp_dir() + "/stopped.jsonl";
    Program           program(spec_of(questions(path, many_conditions)));
    CHECK(await_growth(path, 0));
    program.send(SIGINT);
    const ProgramResult result = program.finish();
    CHECK(result.code == 130);
    CHECK(contains(result.err, "run the same command again to resume from"));
    CHECK(result.out == "");
    CHECK(reference().bytes.rfind(read_file(path), 0) == 0);
    CHECK(read_file(path).back() == '\n');
}

TEST_CASE("eval cli: sampled answers depend on the seed alone") {
    const std::string dir  = temp_dir();
    const auto        text = [&](const std::string & name, const Args & more) {
        const std::string path = dir + "/" + name;
        CHECK(eval(questions(path, Args{"--limit", "2", "--temp", "2"} + more)).code == 0);
        const std::string bytes = read_file(path);
        return bytes.substr(bytes.find('\n'));
    };
    const std::string first = text("a", {"-s", "1"});
    CHECK(text("b", {"-s", "1", "-t", "2"}) == first);
    CHECK(text("c", {"-s", "2"}) != first);
}

TEST_CASE("eval cli: what it refuses") {
    const std::string dir  = temp_dir();
    const std::string path = write_file(dir, "r.jsonl", reference().bytes);
    check_refused(eval(questions(path, many_conditions + Args{"--temp", "0.5"})),
                  "generate/temperature is 0, expected 0.5");
    check_refused(eval(questions(path, many_conditions + Args{"-s", "2"})), "seed is 1, expected 2");
    check_refused(eval(questions(path)), "items is " + std::to_string(n_questions) + ", expected 500");
    CHECK(read_file(path) == reference().bytes);
    check_refused(eval({}), "no command given");
    check_refused(eval({"ask"}), "unknown command 'ask'");
    check_refused(eval({"qa", "-m", "buoy-mdm"}), "qa needs");
    check_refused(eval({"summary"}), "summary needs exactly one result file");
    check_refused(eval({"summary", dir + "/none"}), "/none: cannot open");
    check_refused(eval(questions(dir + "/new", {"--gold-position", "6"})), "gold position 6, expected 1 to 5");
    check_refused(eval(questions(dir + "/new", {"--shard", "4/3"})), "'4/3' is not I/N");
    check_refused(eval(questions(dir + "/new", {"--passages", "0"})), "from 1 to");
    check_refused(eval(questions(dir + "/new", {"--truncate-gold", "0.5,2"})), "'2' is not a number between 0 and 1");
    check_refused(eval(questions(dir + "/new", {"--json", "--csv"})), "use only one of them");
    check_refused(eval(questions(dir + "/new", {"-n", "-1"})), "at least one token");
    check_refused(eval(questions(dir + "/new", {"-d", write_file(dir, "bad.jsonl", "\n{}\n")})),
                  "bad.jsonl:2: no question");
    check_refused(eval(questions(dir + "/new", {"-m", write_file(dir, "bad.gguf", "GGUF")})), "bad.gguf");
    CHECK_FALSE(std::filesystem::exists(dir + "/new"));
    check_refused(eval(questions(dir + "/short", {"-c", "8"})), "leaves no room for a question");
}

TEST_CASE("eval cli: a model without a chat template, and passages that don't fit") {
    const std::string dir = temp_dir();
    std::string       words;
    for (int i = 0; i < 300; i++) {
        words += "word ";
    }
    const std::string   data   = write_file(dir, "d.jsonl",
                                            R"({"question": "q", "answers": ["x"], "passages": ["x )" + words +
                                                R"(", "y"]})"
                                                    "\n"
                                                    R"({"question": ")" +
                                                words + words + R"(", "answers": ["x"]})");
    const ProgramResult result = eval({"qa", "-m", tiny_model("llada"), "-m", tiny_model("llama"), "-d", data, "-o",
                                       dir + "/r.jsonl", "-n", "4", "-c", "256", "--csv"});
    CAPTURE(result.err);
    CHECK(result.code == 0);
    CHECK(contains(result.out, ",,passages=5,1,1,0,")); // n, cut, too long
    CHECK(contains(result.out, ",,closed-book,2,0,1,"));
}
