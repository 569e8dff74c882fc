// The oracles' generation cases through the program: flags in, the authors' tokens out.

#include "support/cli.h"
#include "support/converted.h"
#include "support/oracle.h"

#include <doctest/doctest.h>

using namespace buoy::test;

namespace {

using Args = std::vector<std::string>;
using Json = nlohmann::json;

std::string text_of(const Json & value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

// The flags of a case; the oracle's names for them differ from sampler to sampler.
// Block-causal models: the reference rounds the answer up to whole blocks, and its steps are those of a block.
Args block_args(const Json & c) {
    const Json & settings = c["settings"];
    Args         args     = {"-n", std::to_string(c["output_ids"].size() - c["prompt_ids"].size())};
    for (const auto & [name, flag] : {std::pair<const char *, const char *>{"steps", "--diffusion-steps-per-block"},
                                      {"denoising_steps", "--diffusion-steps-per-block"},
                                      {"block_length", "--diffusion-block-length"},
                                      {"block_size", "--diffusion-block-length"},
                                      {"small_block_size", "--diffusion-sub-block-length"},
                                      {"threshold", "--diffusion-threshold"},
                                      {"confidence_threshold", "--diffusion-threshold"},
                                      {"editing_threshold", "--diffusion-edit-threshold"},
                                      {"max_post_steps", "--diffusion-post-steps"}}) {
        if (settings.contains(name)) {
            args.insert(args.end(), {flag, text_of(settings[name])});
        }
    }
    if (settings.value("use_block_cache", false)) {
        args.insert(args.end(), {"--diffusion-cache", "dual"});
    }
    if (settings.value("remasking_strategy", "") == "sequential") {
        args.insert(args.end(), {"--diffusion-algorithm", "sequential"});
    }
    return args;
}

Args args_of(const Json & c, const std::string & dir) {
    const Json &      settings = c["settings"];
    const std::string sampler  = c["sampler"];
    Args              args;
    if (sampler == "sdar_block" || sampler == "llada2_block" || sampler == "llada21_block" ||
        sampler == "fast_dllm_v2") {
        return block_args(c);
    }
    for (const auto & [name, flag] : {std::pair<const char *, const char *>{"gen_length", "-n"},
                                      {"max_new_tokens", "-n"},
                                      {"steps", "--diffusion-steps"},
                                      {"block_length", "--diffusion-block-length"},
                                      {"cfg_scale", "--diffusion-cfg-scale"},
                                      {"threshold", "--diffusion-threshold"},
                                      {"factor", "--diffusion-factor"},
                                      {"gamma", "--diffusion-eb-gamma"},
                                      {"lambda", "--diffusion-pc-lambda"},
                                      {"alpha", "--diffusion-pc-alpha"},
                                      {"cache", "--diffusion-cache"}}) {
        if (settings.contains(name)) {
            args.insert(args.end(), {flag, text_of(settings[name])});
        }
    }
    const std::map<std::string, std::string> algorithms = {
        {"margin", "margin"}, {"entropy", "entropy"},           {"eb_sampler", "eb"},
        {"pc_sampler", "pc"}, {"linear_position", "pc-linear"}, {"topk_margin", "margin"},
        {"origin", "origin"},
    };
    const std::string key   = sampler == "dream" ? settings["alg"].get<std::string>() : sampler;
    const auto        found = algorithms.find(key);
    if (sampler == "dream") {
        args.insert(args.end(), {"--diffusion-eps", "0.001"});
    }
    if (found != algorithms.end() || sampler == "dream") {
        args.insert(args.end(), {"--diffusion-algorithm", found != algorithms.end() ? found->second : "confidence"});
    }
    if (sampler == "pc_sampler" || sampler == "linear_position") {
        args.insert(args.end(), {"--diffusion-pc-table", dir + "/pc_baseline.json"});
    }
    return args;
}

void check_case(const std::string & name, const Json & c) {
    const Oracle oracle(name);
    Args         args = args_of(c, oracle.dir);
    CAPTURE(name);
    CAPTURE(args);
    std::string ids;
    for (const Json & id : c["prompt_ids"]) {
        ids += id.dump() + ",";
    }
    args.insert(args.end(), {"-m", converted_oracle(name, "f32"), "--tokens", ids, "-fa", "off", "-ctk", "f32", "-ctv",
                             "f32", "--ignore-eos"});
    const Json                 out      = cli_json(args);
    const std::vector<int32_t> expected = c["output_ids"];
    const size_t               n_prompt = c["prompt_ids"].size();
    CHECK(out["prompt_tokens"] == c["prompt_ids"]);
    CHECK(out["tokens"] ==
          Json(std::vector<int32_t>(expected.begin() + static_cast<std::ptrdiff_t>(n_prompt), expected.end())));
    Json actual = Json::array(), wanted = Json::array();
    for (const Json & step : out["steps"]) {
        if (!step["committed"].empty()) {
            actual.push_back(step["committed"]);
        }
    }
    for (const Json & step : c["steps"]) {
        if (!step["changed"].empty()) {
            wanted.push_back(step["changed"]);
        }
    }
    if (!wanted.empty()) { // greedy cases list none
        CHECK(actual == wanted);
    }
}

} // namespace

TEST_CASE("cli: every generation case of the oracles") {
    for (const char * name :
         {"llada", "dream", "llama", "qwen3-tied", "sdar", "fast-dllm-v2", "llada2-moe", "llada21-moe"}) {
        const Oracle oracle(name);
        int          n_cases = 0;
        for (const Json & c : oracle.expected["cases"]) {
            if (!c.contains("quirk")) { // there the reference leaves masks in its output
                check_case(name, c);
                n_cases++;
            }
        }
        CHECK(n_cases > 0);
    }
}
