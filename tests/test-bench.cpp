// llama-diffusion-bench: what it prints, not how long anything takes.
#include "buoy/vocab.h"
#include "buoy/weight-type.h"
#include "io/gguf-file.h"
#include "support/cli.h"
#include "support/paths.h"
#include "support/random-context.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>

using namespace buoy;
using namespace buoy::test;
using nlohmann::json;

namespace {

ProgramResult bench(const std::vector<std::string> & args) {
    ProgramSpec spec;
    spec.name = "llama-diffusion-bench";
    spec.args = args;
    return run_program(spec);
}

// A tiny model and settings that take milliseconds; more flags can follow.
ProgramResult bench_tiny(const std::vector<std::string> & more) {
    static const std::string model = random_gguf({});
    std::vector<std::string> args  = {"-m", model, "-r", "2", "-t", "1"};
    args.insert(args.end(), more.begin(), more.end());
    return bench(args);
}

const std::vector<std::string> short_run = {"-p", "4", "-n", "16", "--steps", "8", "--block-length", "8"};

std::vector<std::string> with(std::vector<std::string> args, const std::vector<std::string> & more) {
    args.insert(args.end(), more.begin(), more.end());
    return args;
}

std::vector<std::string> lines_of(const std::string & text) {
    std::vector<std::string> lines;
    std::istringstream       in(text);
    for (std::string line; std::getline(in, line);) {
        lines.push_back(line);
    }
    return lines;
}

// Of a line of a Markdown table.
std::vector<std::string> cells_of(const std::string & line) {
    std::vector<std::string> cells;
    std::istringstream       in(line.substr(1));
    for (std::string cell; std::getline(in, cell, '|');) {
        const size_t first = cell.find_first_not_of(' ');
        cells.push_back(first == std::string::npos ? "" : cell.substr(first, cell.find_last_not_of(' ') + 1 - first));
    }
    return cells;
}

} // namespace

TEST_CASE("bench: JSON has a row for every combination, with what was set and what was measured") {
    const ProgramResult result = bench_tiny(
        {"-p", "4", "-n", "16", "--steps", "8,16", "--block-length", "8", "--cache", "none,prefix,dual", "-o", "json"});
    REQUIRE_MESSAGE(result.code == 0, result.err);
    CHECK(result.err.empty());
    const json rows = json::parse(result.out);
    REQUIRE(rows.size() == 6);
    const std::vector<std::string> caches = {"none", "prefix", "dual"};
    for (size_t i = 0; i < rows.size(); i++) {
        const json & row = rows[i];
        CHECK(row.at("cache") == caches[i / 2]);
        CHECK(row.at("steps") == (i % 2 == 0 ? 8 : 16));
        CHECK(row.at("forwards") == row.at("steps"));
        CHECK(row.at("prompt") == 4);
        CHECK(row.at("gen") == 16);
        CHECK(row.at("threshold") == "off");
        CHECK(row.at("tokens").is_null());
        CHECK(row.at("arch") == "llada");
        CHECK(row.at("samples_ms").size() == 2);
        CHECK(row.at("tokens_per_s").get<double>() > 0.0);
        CHECK(row.at("ms_per_forward").get<double>() > 0.0);
        CHECK(row.at("weight_bytes").get<uint64_t>() > 0);
        CHECK(row.at("peak_bytes").get<uint64_t>() > row.at("weight_bytes").get<uint64_t>());
        // a mean is that of its samples
        const double sum = row.at("samples_ms")[0].get<double>() + row.at("samples_ms")[1].get<double>();
        CHECK(row.at("total_ms").get<double>() == doctest::Approx(sum / 2));
        CHECK(row.at("ms_per_forward").get<double>() == doctest::Approx(sum / 2 / row.at("forwards").get<double>()));
    }
}

TEST_CASE("bench: JSON lines and CSV carry the same fields") {
    const ProgramResult lines = bench_tiny(with(short_run, {"-o", "jsonl", "--threshold", "off,0.9"}));
    REQUIRE_MESSAGE(lines.code == 0, lines.err);
    REQUIRE(lines_of(lines.out).size() == 2);
    const nlohmann::ordered_json row = nlohmann::ordered_json::parse(lines_of(lines.out)[1]);
    CHECK(row.at("threshold") == doctest::Approx(0.9));

    const ProgramResult csv = bench_tiny(with(short_run, {"-o", "csv", "--threshold", "off,0.9"}));
    REQUIRE_MESSAGE(csv.code == 0, csv.err);
    const std::vector<std::string> rows = lines_of(csv.out);
    REQUIRE(rows.size() == 3);
    std::string head;
    for (const auto & [key, value] : row.items()) {
        head += (head.empty() ? "" : ",") + key;
    }
    CHECK(rows[0] == head);
    for (const std::string & text : rows) {
        CHECK(std::count(text.begin(), text.end(), ',') == std::count(head.begin(), head.end(), ','));
    }
}

TEST_CASE("bench: a Markdown table has the model, what varies and what was measured") {
    const ProgramResult result = bench_tiny(with(short_run, {"-fa", "off", "-ctk", "f16,f32"}));
    REQUIRE_MESSAGE(result.code == 0, result.err);
    const std::vector<std::string> rows = lines_of(result.out);
    REQUIRE(rows.size() == 4);
    const auto has = [&](const char * column) { return rows[0].find(column) != std::string::npos; };
    CHECK(has("model"));
    CHECK(has("type_k"));
    CHECK(has("tokens/s"));
    CHECK(has("ms/forward"));
    CHECK(has("forwards"));
    CHECK(has("peak MiB"));
    CHECK_FALSE(has("type_v"));
    CHECK_FALSE(has("temp"));
    for (const char * column : {"weights MiB", "threads", "kernels", "cache", "prompt", "gen", "steps", "block"}) {
        CHECK_MESSAGE(has(column), column); // what was run is said where it is the same for all rows, too
    }
    const std::vector<std::string> head = cells_of(rows[0]), first = cells_of(rows[2]);
    REQUIRE(head.size() == first.size());
    CHECK(head[1] == "type");
    CHECK(first[1] == "f32");
    for (const auto & [column, value] :
         std::map<std::string, std::string>{{"prompt", "4"}, {"gen", "16"}, {"steps", "8"}, {"threads", "1"}}) {
        const auto at = std::find(head.begin(), head.end(), column) - head.begin();
        CHECK(first[static_cast<size_t>(at)] == value);
    }
    CHECK(rows[1].find("---:") != std::string::npos);
    CHECK(rows[2].find("random.gguf") != std::string::npos);
    CHECK(rows[2].find("±") != std::string::npos);
    for (const std::string & row : rows) {
        CHECK(std::count(row.begin(), row.end(), '|') == std::count(rows[0].begin(), rows[0].end(), '|'));
    }
}

TEST_CASE("bench: single passes, whole and against stored positions") {
    const ProgramResult result =
        bench_tiny({"--forward", "16,32", "--rows", "4,all", "--cache", "none,dual", "-o", "json", "--no-warmup"});
    REQUIRE_MESSAGE(result.code == 0, result.err);
    const json rows = json::parse(result.out);
    REQUIRE(rows.size() == 8);
    for (const json & row : rows) {
        CHECK(row.at("tokens_per_s").is_null());
        CHECK(row.at("forwards") == 1);
        CHECK(row.at("steps").is_null());
        CHECK((row.at("cache") == "none" || row.at("kv_bytes").get<uint64_t>() > 0));
    }
}

TEST_CASE("bench: the profile splits a step, growth compares with its first row") {
    const ProgramResult profile = bench_tiny(with(short_run, {"--profile", "--unpack", "f16", "-o", "jsonl"}));
    REQUIRE_MESSAGE(profile.code == 0, profile.err);
    const json row = json::parse(profile.out);
    CHECK(row.at("pass_ms").get<double>() > 0.0);
    CHECK(row.at("pass_ms").get<double>() <= row.at("ms_per_forward").get<double>());
    CHECK(row.at("summary_ms").get<double>() >= 0.0);
    CHECK(row.at("pass_ms").get<double>() + row.at("host_ms").get<double>() ==
          doctest::Approx(row.at("ms_per_forward").get<double>()));

    const ProgramResult growth = bench_tiny({"--growth", "--forward", "32,64", "--rows", "8"});
    REQUIRE_MESSAGE(growth.code == 0, growth.err);
    const std::vector<std::string> lines = lines_of(growth.out);
    REQUIRE(lines.size() == 7);
    CHECK(lines[0].find("K/V MiB") != std::string::npos);
    CHECK(lines[5].rfind("32 tokens: 1.00 × the time at 32;", 0) == 0);
    CHECK(lines[6].rfind("64 tokens: ", 0) == 0);
}

TEST_CASE("bench: the machine's peak, alone") {
    const ProgramResult md = bench({"--peak", "-t", "1,2"});
    REQUIRE_MESSAGE(md.code == 0, md.err);
    const std::vector<std::string> lines = lines_of(md.out);
    REQUIRE(lines.size() == 4);
    CHECK(cells_of(lines[0]) == std::vector<std::string>{"threads", "instructions", "F32 GMAC/s", "BF16 GMAC/s",
                                                         "int8 GMAC/s", "memory GB/s"});
    CHECK(cells_of(lines[2])[0] == "1");
    CHECK(cells_of(lines[3])[0] == "2");

    const ProgramResult all = bench({"--peak", "-t", "1", "-o", "json"});
    REQUIRE_MESSAGE(all.code == 0, all.err);
    const json rows = json::parse(all.out);
    REQUIRE(rows.size() == 1);
    CHECK(rows[0].at("threads") == 1);
    CHECK(rows[0].at("memory_gb_per_s").get<double>() > 0.0);
    for (const char * key : {"f32_gmac_per_s", "int8_gmac_per_s"}) {
        CHECK((rows[0].at(key).is_null() || rows[0].at(key).get<double>() > 0.0));
    }
    const ProgramResult line = bench({"--peak", "-t", "1", "-o", "jsonl"});
    CHECK(json::parse(line.out).at("threads") == 1);
    const std::vector<std::string> csv = lines_of(bench({"--peak", "-t", "1", "-o", "csv"}).out);
    REQUIRE(csv.size() == 2);
    CHECK(csv[0] == "threads,instructions,f32_gmac_per_s,bf16_gmac_per_s,int8_gmac_per_s,memory_gb_per_s");
}

TEST_CASE("bench: with --peak, rows have their share of it") {
    const ProgramResult result = bench_tiny(with(short_run, {"--peak", "-o", "jsonl"}));
    REQUIRE_MESSAGE(result.code == 0, result.err);
    const json row = json::parse(result.out);
    CHECK(row.at("peak_threads") == 1);
    CHECK(row.at("f32_gmac").get<double>() > 0.0);
    CHECK(row.at("int8_gmac") == 0.0);
    const double ms = row.at("ms_per_forward");
    if (!row.at("peak_f32_gmac_per_s").is_null()) {
        CHECK(
            row.at("peak_percent").get<double>() ==
            doctest::Approx(row.at("f32_gmac").get<double>() * 1e5 / row.at("peak_f32_gmac_per_s").get<double>() / ms));
    }
    CHECK(row.at("memory_percent").get<double>() == doctest::Approx(row.at("weights_read_gb").get<double>() * 1e5 /
                                                                    row.at("peak_memory_gb_per_s").get<double>() / ms));

    const ProgramResult table = bench_tiny({"--forward", "16", "--peak"});
    REQUIRE_MESSAGE(table.code == 0, table.err);
    const std::vector<std::string> lines = lines_of(table.out);
    REQUIRE(lines.size() == 7); // the peak with one thread, an empty line, and the row
    CHECK(lines[3].empty());
    const std::vector<std::string> head = cells_of(lines[4]);
    CHECK(std::find(head.begin(), head.end(), "% of peak") != head.end());
    CHECK(std::find(head.begin(), head.end(), "% of memory") != head.end());
    CHECK(cells_of(lines[6]).size() == head.size());
}

TEST_CASE("bench: a random model is written once, and replaced only by force") {
    const std::string              path = temp_dir() + "/made.gguf";
    const std::vector<std::string> make = {"--make-model", "dream:E=64,L=1,H=2,V=300,TYPE=q8_0", "-o", path};
    const ProgramResult            made = bench(make);
    REQUIRE_MESSAGE(made.code == 0, made.err);
    CHECK(made.out.empty());
    CHECK(std::filesystem::file_size(path) > 0);
    check_refused(bench(make), "made.gguf");
    CHECK(bench(with(make, {"--force"})).code == 0);

    const ProgramResult run = bench(with({"-m", path, "-r", "1", "-o", "jsonl"}, short_run));
    REQUIRE_MESSAGE(run.code == 0, run.err);
    CHECK(json::parse(run.out).at("arch") == "dream");
    CHECK(json::parse(run.out).at("type") == "q8_0");
    CHECK_FALSE(Vocab::load(path).has_chat_template());
}

TEST_CASE("bench: a random model's type is one of ggml's in any case, or a mix") {
    struct Made {
        const char * type;
        const char * most;
        ggml_type    head;
    };
    for (const Made & made : {Made{"q4_k", "q4_K", GGML_TYPE_Q4_K}, Made{"Q4_K", "q4_K", GGML_TYPE_Q4_K},
                              Made{"q4_k_m", "q4_K", GGML_TYPE_Q6_K}, Made{"Q5_K_M", "q5_K", GGML_TYPE_Q6_K}}) {
        INFO(made.type);
        const std::string   path = temp_dir() + "/mixed.gguf";
        const ProgramResult result =
            bench({"--make-model", std::string("llada:E=256,L=3,H=4,V=261,TYPE=") + made.type, "-o", path, "--force"});
        REQUIRE_MESSAGE(result.code == 0, result.err);
        CHECK(weight_type(path) == made.most);
        CHECK(GgufFile::open(path).find_tensor("output.weight")->type == made.head);
    }
}

TEST_CASE("bench: a random model's chat template adds nothing, so that upstream's prompt has the length we count on") {
    const std::string   path = temp_dir() + "/chat.gguf";
    const ProgramResult made = bench({"--make-model", "llada:E=64,L=1,H=2,V=300,CHAT=1", "-o", path});
    REQUIRE_MESSAGE(made.code == 0, made.err);
    const Vocab vocab = Vocab::load(path);
    REQUIRE(vocab.has_chat_template());
    CHECK(vocab.encode_chat({{"user", std::string(32, 'a')}}, true) == std::vector<int32_t>(32, int32_t{'a'}));
}

TEST_CASE("bench: a wrong command line ends with 1 and one line") {
    check_refused(bench({}), "no model given");
    check_refused(bench_tiny({"--no-such-flag"}), "--no-such-flag");
    check_refused(bench_tiny({"-o", "xml"}), "'xml'");
    check_refused(bench_tiny({"-n", "0"}), "'0'");
    check_refused(bench_tiny({"-p", "4,,8"}), "empty item");
    check_refused(bench_tiny({"-n", "4k"}), "'4k'");
    check_refused(bench({"-m", "x.gguf", "-t", "-2"}), "-t: '-2'");
    check_refused(bench({"-m", "x.gguf", "-r", "0"}), "-r: '0'");
    check_refused(bench_tiny({"--cache", "none,triple"}), "'triple'");
    check_refused(bench_tiny({"--threshold", "1.5"}), "'1.5'");
    check_refused(bench_tiny({"--threshold", "nan"}), "'nan'");
    check_refused(bench_tiny({"-ctk", "q9"}), "'q9'");
    check_refused(bench_tiny({"--rows", "4"}), "--forward");
    check_refused(bench_tiny({"--forward", "16", "--rows", "17"}), "--rows 17");
    check_refused(bench_tiny({"--forward", "16", "--cache", "prefix"}), "prefix");
    check_refused(bench_tiny({"--forward", "16", "--steps", "4"}), "--steps");
    check_refused(bench_tiny({"--forward", "16", "--profile"}), "--profile");
    check_refused(bench({"--peak", "-n", "4"}), "no model given");
    check_refused(bench({"--peak", "-t", "many"}), "'many'");
    check_refused(bench_tiny({"-ngl", "some"}), "'some'");
    check_refused(bench_tiny({"-dev", "CUDA9"}), "unknown device 'CUDA9'");
    check_refused(bench_tiny({"-ts", "1,x"}), "'x'");
    check_refused(bench({"--make-model", "llada:E=64"}), "-o FILE");
    check_refused(bench({"--make-model", "llada:Q=1", "-o", temp_dir() + "/x.gguf"}), "Q=1");
    check_refused(bench({"--make-model", "llada:E=64,TYPE=q4_k_l", "-o", temp_dir() + "/x.gguf"}), "or a mix: q3_k_m");
    check_refused(bench_tiny({"--make-model", "llada:E=64", "-o", temp_dir() + "/x.gguf"}), "--make-model");
    check_refused(bench({"-m", temp_dir() + "/absent.gguf"}), "absent.gguf");
}

TEST_CASE("bench: help and the list of devices") {
    const ProgramResult help = bench({"--help"});
    CHECK(help.code == 0);
    CHECK(contains(help.out, "-ngl, --gpu-layers, --n-gpu-layers N"));
    CHECK(contains(help.out, "-ot, --override-tensor REGEX=DEVICE"));
    const ProgramResult devices = bench({"--list-devices"});
    CHECK(devices.code == 0);
    CHECK(contains(devices.out, "CPU"));
}

TEST_CASE("bench: rows measured before an error are printed whole") {
    const std::string   good   = random_gguf({});
    const ProgramResult result = bench(with({"-m", good + "," + good + ".absent", "-r", "1", "-o", "json"}, short_run));
    CHECK(result.code == 1);
    CHECK(result.is_one_line());
    CHECK(json::parse(result.out).size() == 1);
}

TEST_CASE("bench: output that can't be written ends with 2") {
    ProgramSpec spec;
    spec.name   = "llama-diffusion-bench";
    spec.args   = with({"-m", random_gguf({}), "-r", "1"}, short_run);
    spec.output = "/dev/full";
    if (!std::filesystem::exists(spec.output)) {
        MESSAGE("no /dev/full here");
        return;
    }
    const ProgramResult result = run_program(spec);
    CHECK(result.code == 2);
    CHECK(result.is_one_line());
}
