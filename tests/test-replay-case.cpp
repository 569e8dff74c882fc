// Published cases: read from their files, and replayed by the program.

#include "buoy/replay-case.h"

#include "buoy/error.h"
#include "io/json-file.h"
#include "support/cli.h"
#include "support/converted.h"
#include "support/gguf-bytes.h"
#include "support/oracle.h"
#include "support/paths.h"
#include "support/text.h"

#include <doctest/doctest.h>

#include <filesystem>

using namespace buoy;
using namespace buoy::test;

namespace {

using Json = nlohmann::json;

std::string case_file(const std::string & text) { return write_file(temp_dir(), "cases.json", text); }

std::string error_of(const std::string & place) {
    try {
        load_case(place);
    } catch (const Error & error) {
        return error.what();
    }
    return "";
}

Json changes(const Json & steps, const char * name) {
    Json found = Json::array();
    for (const Json & step : steps) {
        if (!step[name].empty()) {
            found.push_back(step[name]);
        }
    }
    return found;
}

// Of each step, null where it has none; empty where no step has one.
Json values(const Json & steps, const char * name) {
    Json found = Json::array();
    bool any   = false;
    for (const Json & step : steps) {
        found.push_back(step.value(name, Json()));
        any = any || step.contains(name);
    }
    return any ? found : Json::array();
}

// What the method measured, where the case has it.
void check_probes(const Json & out, const Json & c) {
    if (!c.contains("probe")) {
        return;
    }
    for (const Json & probe : c["probe"]) {
        const Json & measured = out["steps"][probe["step"].get<size_t>()]["probe"];
        for (const char * name : {"column_mean", "importance"}) {
            if (probe.contains(name)) {
                CHECK(max_abs_diff(measured[name], probe[name]) < 1e-4);
            }
        }
    }
}

// Everything a case says about its run.
void check_replay(const std::string & model, const std::string & file, const Json & c) {
    const std::string id = c["id"];
    CAPTURE(file);
    CAPTURE(id);
    const Json out = cli_json({"-m", model, "--case", file + ":" + id});
    CHECK(out["case"]["sampler"] == c["sampler"]);
    CHECK(out["prompt_tokens"] == c["prompt_ids"]);
    CHECK(out["sequence"] == c["output_ids"]);
    CHECK(out["forwards"].get<int64_t>() <= c["nfe"].get<int64_t>());
    check_probes(out, c);
    for (const char * name :
         {"queries", "reset_layer", "refreshed", "stage", "gen_length", "canvas_length", "expand_at", "new_length"}) {
        CAPTURE(name);
        CHECK(values(out["steps"], name) == values(c["steps"], name));
    }
    const bool lists_steps = c["sampler"] != "greedy";
    if (lists_steps) {
        CHECK(changes(out["steps"], "committed") == changes(c["steps"], "changed"));
    }
}

} // namespace

TEST_CASE("a case is read with every setting") {
    const std::string file = case_file(R"({"cases": [
        {"id": "a", "sampler": "llada", "prompt_ids": [1, 2], "settings": {"gen_length": 8, "steps": 4, "block_length": 4,
         "remasking": "random", "cfg_scale": 1.5, "temperature": 0.5, "mask_id": 7}},
        {"id": "b:c", "sampler": "fast_dllm_dual", "prompt_ids": [1], "settings": {"gen_length": 8, "cache": "dual", "threshold": 0.6},
         "steps": [{"changed": []}, {"random_ids": [3, 4], "u": [0.25, 0.5], "canvas_in": [5, 6]}]},
        {"id": "rounded", "sampler": "sdar_block", "prompt_ids": [1, 2, 3], "settings": {"gen_length": 9, "block_length": 8,
         "denoising_steps": 4, "temperature": 1.0, "greedy": true}}]})");
    const ReplayCase  a    = load_case(file + ":a");
    CHECK(a.sampler == "llada");
    CHECK(a.prompt == std::vector<int32_t>{1, 2});
    CHECK(a.mask_id == 7);
    CHECK(a.params.n_predict == 8);
    CHECK(a.params.steps == 4);
    CHECK(a.params.block_length == 4);
    CHECK(a.params.algorithm == Algorithm::random);
    CHECK(a.params.cfg_scale == 1.5f);
    CHECK(a.params.temperature == 0.5f);
    CHECK(a.params.draws.empty());
    const ReplayCase b = load_case(file + ":b:c");
    CHECK(b.params.cache == DiffusionCache::dual);
    CHECK(b.params.threshold == 0.6f);
    REQUIRE(b.params.draws.size() == 2);
    CHECK(b.params.draws[1].ids == std::vector<int32_t>{3, 4});
    CHECK(b.params.draws[1].uniform == std::vector<double>{0.25, 0.5});
    CHECK(b.params.draws[1].canvas == std::vector<int32_t>{5, 6});
    const ReplayCase rounded = load_case(file, "rounded"); // SDAR's answer ends with a whole block
    CHECK(rounded.params.n_predict == 13);
    CHECK(rounded.params.temperature == 0.0f);
}

TEST_CASE("a case that can't be read says why") {
    const std::string file = case_file(R"({"cases": [
        {"id": "unknown", "sampler": "guesswork", "prompt_ids": [1], "settings": {"gen_length": 8}},
        {"id": "extra", "sampler": "llada", "prompt_ids": [1], "settings": {"gen_length": 8, "luck": 3}},
        {"id": "short", "sampler": "llada", "prompt_ids": [1], "settings": {}},
        {"id": "odd", "sampler": "llada", "prompt_ids": ["x"], "settings": {}},
        {"id": "bare", "sampler": "llada"}]})");
    CHECK(contains(error_of(file + ":nothing"), "there is no case 'nothing'; those there are: unknown, extra, short"));
    CHECK(contains(error_of(file + ":unknown"), "unknown sampler 'guesswork'; known are llada, fast_dllm"));
    CHECK(contains(error_of(file + ":extra"), "there is no setting 'luck'"));
    CHECK(contains(error_of(file + ":short"), "setting max_new_tokens is missing"));
    CHECK(error_of(file + ":odd") != "");
    CHECK(error_of(file + ":bare") != "");
    CHECK(contains(error_of("cases"), "is not FILE.json:ID"));
    CHECK(contains(error_of(case_file("[]") + ":a"), "no cases there"));
}

TEST_CASE("cli: a setting that does not exist lists those that do") {
    const Args model = {"-m", tiny_model("llada"), "-p", "a"};
    check_refused(cli(model + Args{"--diffusion-set", "luck=3"}), "threshold none");
    check_refused(cli(model + Args{"--diffusion-set", "threshold=2"}), "is not a number from 0 to 1, or none");
    check_refused(cli(model + Args{"--diffusion-set", "threshold"}), "is not NAME=VALUE");
    const Args run = model + Args{"-n", "8"};
    CHECK(cli_json(run + Args{"--diffusion-set", "threshold=0.01"})["steps"] ==
          cli_json(run + Args{"--diffusion-threshold", "0.01"})["steps"]);
}

TEST_CASE("cli: a case of another model is refused, flags after a case override it") {
    const std::string file = case_file(R"({"cases": [
        {"id": "a", "sampler": "llada", "prompt_ids": [1, 2], "settings": {"gen_length": 8, "steps": 8, "block_length": 8, "mask_id": 1}},
        {"id": "b", "sampler": "llada", "prompt_ids": [1, 2], "settings": {"gen_length": 8, "steps": 8, "block_length": 8}}]})");
    check_refused(cli({"-m", tiny_model("llada"), "--case", file + ":a"}), "whose mask is token 1");
    check_refused(cli({"-m", tiny_model("llada"), "--case", file + ":b", "-p", "x"}), "use only one of them");
    const Json out = cli_json({"-m", tiny_model("llada"), "--case", file + ":b", "-n", "4", "--diffusion-steps", "4"});
    CHECK(out["sequence"].size() == 6);
    CHECK(out["settings"]["flash_attn"] == "off");
    CHECK(out["settings"]["cache_type_k"] == "f32");
}

TEST_CASE("cli: the published cases are replayed") {
    int n_cases = 0;
    for (const char * name : {"llada", "dream", "llama", "sdar", "fast-dllm-v2", "llada2-moe", "llada21-moe", "rnd1"}) {
        const Oracle oracle(name);
        for (const Json & c : oracle.expected["cases"]) {
            if (!c.contains("quirk")) {
                check_replay(converted_oracle(name, "f32"), oracle.dir + "/expected.json", c);
                n_cases++;
            }
        }
    }
    CHECK(n_cases >= 40);
}

TEST_CASE("cli: the published cases of the decoding methods are replayed") {
    int n_cases = 0;
    for (const char * name : {"llada", "dream"}) {
        for (const char * method :
             {"localleap", "klass", "dawn", "wino", "daedal", "d2cache", "elastic", "dllm_cache"}) {
            const std::string file = oracles_dir() + "/decoders/" + name + "/" + method + ".json";
            if (!std::filesystem::exists(file)) {
                continue; // some have it for LLaDA only
            }
            const Json all = load_json(file);
            for (const Json & c : all["cases"]) {
                if (!c.contains("quirk")) {
                    check_replay(converted_oracle(name, "f32"), file, c);
                    n_cases++;
                }
            }
        }
    }
    CHECK(n_cases >= 51);
}
