// JSON that nobody vouches for: limits, and time in proportion to the length.

#include "io/json-file.h"

#include "buoy/error.h"
#include "buoy/frequency-table.h"
#include "buoy/regions.h"
#include "support/gguf-bytes.h"
#include "support/hf-dir.h"
#include "support/paths.h"
#include "support/run-program.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include <ctime>
#include <functional>

using namespace buoy;
using namespace buoy::test;

namespace {

std::string repeated(const std::string & part, size_t n) {
    std::string text;
    for (size_t i = 0; i < n; i++) {
        text += part;
    }
    return text;
}

std::string error_of(const std::function<void()> & call) {
    try {
        call();
    } catch (const Error & error) {
        return error.what();
    }
    return "accepted";
}

std::string error_of(const std::string & text, const JsonRules & rules = {}) {
    return error_of([&] { parse_json(text, "x.json", rules); });
}

// Lists of many small things, each of which took a look at all others.
std::vector<std::string> many(size_t n) {
    std::string keys;
    for (size_t i = 0; i < n; i++) {
        keys += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":0";
    }
    return {
        "[" + repeated("[],", n) + "0]",
        "[" + repeated("{},", n) + "0]",
        "[" + repeated("{\"a\":[]},", n) + "0]",
        "{\"a\":[" + repeated("[0],", n) + "0]}",
        "[" + repeated("[", 60) + repeated("[],", n) + "0" + repeated("]", 60) + "]",
        "{" + keys + "}",
    };
}

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

} // namespace

TEST_CASE("json: values arrive as they are") {
    const nlohmann::json json = parse_json(
        R"({"a": [1, -2, 1.5, true, null, "x\u00e9\n", {"b": {}}, []], "c": 18446744073709551615, "a2": "", "c": 3})",
        "x");
    CHECK(json.at("a").dump() == R"([1,-2,1.5,true,null,"xé\n",{"b":{}},[]])");
    CHECK(json.at("c") == 3); // the last one counts
    CHECK(parse_json("7", "x") == 7);
    CHECK(parse_json("\"s\"", "x") == "s");
    CHECK(parse_ordered_json(R"({"z": 1, "a": {"y": 2, "b": 3}})", "x").dump() == R"({"z":1,"a":{"y":2,"b":3}})");
}

TEST_CASE("json: what is none is one line that names the file") {
    for (const char * text : {"", "{", "[1,", "{\"a\" 1}", "nul", "[1]]", "\"\xff\"", "{1: 2}", "'a'", "[NaN]"}) {
        CAPTURE(text);
        const std::string message = error_of(text);
        CHECK(message.rfind("x.json: not valid JSON: ", 0) == 0);
        CHECK(message.find('\n') == std::string::npos);
    }
    CHECK(error_of("[" + std::string(1000000, 'x')).size() < 300);
}

TEST_CASE("json: depth, keys, members and memory have limits") {
    CHECK(error_of(repeated("[", 64) + repeated("]", 64)) == "accepted");
    CHECK(error_of(repeated("[", 65) + repeated("]", 65)) == "x.json: JSON nested deeper than 64 levels");
    CHECK(error_of(repeated("{\"a\":", 1000000)) == "x.json: JSON nested deeper than 64 levels");
    CHECK(error_of(R"({"a": 1, "a": 2})", {.keys = JsonKeys::unique}) == "x.json: JSON key 'a' appears twice");
    CHECK(error_of(R"({"a": {"a": 1}, "b": {"a": 1}})", {.keys = JsonKeys::unique}) == "accepted");
    CHECK(error_of(R"({"a": 1, "b": 2, "c": 3})", {.members_max = 2}) ==
          "x.json: a JSON object with more than 2 members");
    CHECK(error_of("[" + repeated("[],", 9000000) + "0]").find("too many values") != std::string::npos);
    CHECK(error_of([] { parse_ordered_json(many(2000).back(), "x.json"); }) ==
          "x.json: a JSON object with more than 1000 members");
}

TEST_CASE("json: ten times the text takes about ten times as long") {
    for (size_t i = 0; i < many(1).size(); i++) {
        CAPTURE(i);
        const std::string text  = many(100000)[i]; // minutes, where each value looks at all others
        const double      begin = cpu_seconds();
        parse_json(text, "x.json");
        CHECK(cpu_seconds() - begin < 20);
    }
}

TEST_CASE("json: every reader of files has these limits") {
    const std::string dir  = temp_dir();
    const auto        file = [&](const std::string & text) { return buoy::test::write_file(dir, "x.json", text); };
    for (const std::string & text : many(100000)) {
        CAPTURE(text.substr(0, 40));
        const double begin = cpu_seconds();
        CHECK(error_of([&] { load_regions(file(text)); }) != "accepted");
        CHECK(error_of([&] { load_frequency_table(file(text)); }) != "accepted");
        CHECK(error_of([&] { load_regions(file("{\"regions\": " + text + "}")); }) != "accepted");
        CHECK(error_of([&] {
                  load_frequency_table(file("{\"num_token\": 1, \"p_baseline_dict\": [" + text + "]}"));
              }) != "accepted");
        CHECK(cpu_seconds() - begin < 20);
    }
    // a checkpoint's config, tokenizer and index
    HfDir checkpoint = tiny_checkpoint("LLaDAModelLM");
    for (const char * name : {"config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json"}) {
        CAPTURE(name);
        const std::string input = checkpoint.write();
        buoy::test::write_file(input, name,
                               "{\"x\": " + many(100000)[0] + ", \"eos_token_id\": [" + repeated("99999999,", 1000000) +
                                   "0]}");
        ProgramSpec spec;
        spec.name                  = "llama-diffusion-convert";
        spec.args                  = {input, "-o", dir + "/out.gguf", "--force"};
        const ProgramResult result = run_program(spec);
        CHECK_FALSE(result.timed_out);
        CHECK(result.code <= 1);
        CHECK(result.err.size() < 20000);
    }
}

TEST_CASE("json: too many regions are refused") {
    std::string list;
    for (int i = 0; i < 1025; i++) {
        list += (i == 0 ? "" : ",") + ("{\"name\": \"r" + std::to_string(i)) + "\", \"tokens\": [0, 1]}";
    }
    const std::string path = buoy::test::write_file(temp_dir(), "r.json", "{\"regions\": [" + list + "]}");
    CHECK(error_of([&] { load_regions(path); }).find("more than 1024 regions") != std::string::npos);
}
