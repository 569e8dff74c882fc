// Settings mean in a request what they mean on the command line: the same tokens.

#include "support/cli.h"
#include "support/service.h"

#include <doctest/doctest.h>

using namespace buoy;
using namespace buoy::test;
using nlohmann::json;

namespace {

struct Setting {
    const char * arch;
    json         request;
    Args         flags;
};

const std::vector<Setting> settings = {
    {"llada", json::object(), {}},
    {"llada", {{"temperature", 0.8}, {"seed", 3}}, {"--temp", "0.8", "-s", "3"}},
    {"llada", {{"temperature", 1.0}, {"top_p", 0.7}, {"seed", 4}}, {"--temp", "1", "--top-p", "0.7", "-s", "4"}},
    {"llada",
     {{"temperature", 1.5}, {"top_k", 20}, {"min_p", 0.01}, {"seed", 5}},
     {"--temp", "1.5", "--top-k", "20", "--min-p", "0.01", "-s", "5"}},
    {"llada", {{"max_tokens", 40}}, {"-n", "40"}},
    {"llada", {{"max_completion_tokens", 5}}, {"-n", "5"}},
    {"llada", {{"logit_bias", {{"65", 50}, {"66", -100}}}}, {"--logit-bias", "65+50", "--logit-bias", "66-100"}},
    {"llada", {{"ignore_eos", true}}, {"--ignore-eos"}},
    {"llada", {{"diffusion", {{"steps", 5}}}}, {"--diffusion-steps", "5"}},
    {"llada", {{"diffusion", {{"block_length", 8}}}}, {"--diffusion-block-length", "8"}},
    {"llada",
     {{"diffusion", {{"block_length", 4}, {"steps_per_block", 2}}}},
     {"--diffusion-block-length", "4", "--diffusion-steps-per-block", "2"}},
    {"llada", {{"diffusion", {{"algorithm", "entropy"}}}}, {"--diffusion-algorithm", "entropy"}},
    {"llada",
     {{"diffusion", {{"algorithm", "margin"}, {"steps", 7}}}},
     {"--diffusion-algorithm", "margin", "--diffusion-steps", "7"}},
    {"llada", {{"diffusion", {{"algorithm", "random"}}}, {"seed", 9}}, {"--diffusion-algorithm", "random", "-s", "9"}},
    {"llada", {{"diffusion", {{"algorithm", "sequential"}}}}, {"--diffusion-algorithm", "sequential"}},
    {"llada",
     {{"diffusion", {{"algorithm", "eb"}, {"eb_gamma", 0.5}}}},
     {"--diffusion-algorithm", "eb", "--diffusion-eb-gamma", "0.5"}},
    {"llada", {{"diffusion", {{"alg_temp", 0.5}}}, {"seed", 2}}, {"--diffusion-alg-temp", "0.5", "-s", "2"}},
    {"llada", {{"diffusion", {{"threshold", 0.01}}}}, {"--diffusion-threshold", "0.01"}},
    {"llada", {{"diffusion", {{"factor", 2.0}}}}, {"--diffusion-factor", "2"}},
    {"llada", {{"diffusion", {{"cfg_scale", 1.5}}}}, {"--diffusion-cfg-scale", "1.5"}},
    {"llada",
     {{"diffusion", {{"cache", "prefix"}, {"block_length", 8}}}},
     {"--diffusion-cache", "prefix", "--diffusion-block-length", "8"}},
    {"llada",
     {{"diffusion", {{"cache", "dual"}, {"block_length", 8}, {"cache_refresh", 2}}}},
     {"--diffusion-cache", "dual", "--diffusion-block-length", "8", "--diffusion-cache-refresh", "2"}},
    {"llada", {{"diffusion", {{"eps", 0.01}, {"steps", 8}}}}, {"--diffusion-eps", "0.01", "--diffusion-steps", "8"}},
    {"llada",
     {{"diffusion", {{"algorithm", "wino"}, {"threshold", 0.01}, {"set", {{"threshold_back", 0.02}}}}}},
     {"--diffusion-algorithm", "wino", "--diffusion-threshold", "0.01", "--diffusion-set", "threshold_back=0.02"}},
    {"llada", {{"diffusion", {{"preset", "fast"}}}}, {"--diffusion-preset", "fast"}},
    {"llada",
     {{"diffusion", {{"preset", "balanced"}, {"threshold", 0.02}}}},
     {"--diffusion-preset", "balanced", "--diffusion-threshold", "0.02"}},
    {"dream", {{"diffusion", {{"preset", "fast"}}}}, {"--diffusion-preset", "fast"}},
    {"dream", json::object(), {}},
    {"dream", {{"diffusion", {{"eps", 0.05}, {"steps", 9}}}}, {"--diffusion-eps", "0.05", "--diffusion-steps", "9"}},
    {"dream",
     {{"diffusion", {{"algorithm", "origin"}}}, {"temperature", 0.5}, {"seed", 8}},
     {"--diffusion-algorithm", "origin", "--temp", "0.5", "-s", "8"}},
    {"dream",
     {{"diffusion", {{"block_length", 8}, {"threshold", 0.02}}}},
     {"--diffusion-block-length", "8", "--diffusion-threshold", "0.02"}},
    {"sdar", json::object(), {}},
    {"sdar", {{"diffusion", {{"threshold", 0.01}}}, {"max_tokens", 22}}, {"--diffusion-threshold", "0.01", "-n", "22"}},
    {"sdar",
     {{"diffusion", {{"edit_threshold", 0.02}, {"post_steps", 3}}}},
     {"--diffusion-edit-threshold", "0.02", "--diffusion-post-steps", "3"}},
    {"sdar",
     {{"diffusion", {{"sub_block_length", 2}, {"cache", "dual"}}}},
     {"--diffusion-sub-block-length", "2", "--diffusion-cache", "dual"}},
    {"sdar",
     {{"diffusion", {{"cache", "none"}}}, {"temperature", 0.6}, {"seed", 6}},
     {"--diffusion-cache", "none", "--temp", "0.6", "-s", "6"}},
    {"llama", json::object(), {}},
    {"llama", {{"temperature", 0.9}, {"top_k", 30}, {"seed", 12}}, {"--temp", "0.9", "--top-k", "30", "-s", "12"}},
};

std::string streamed_text(const std::vector<json> & chunks) {
    std::string text;
    for (const json & chunk : chunks) {
        for (const json & choice : chunk["choices"]) {
            text += choice.value("text", "");
        }
    }
    return text;
}

} // namespace

TEST_CASE("serve: a request has the tokens that the program has with the same settings") {
    std::string                  arch;
    std::unique_ptr<TestService> service;
    for (const Setting & setting : settings) {
        CAPTURE(std::string(setting.arch));
        CAPTURE(setting.request.dump());
        const std::string & path = tiny_model(setting.arch);
        if (arch != setting.arch) {
            arch    = setting.arch;
            service = std::make_unique<TestService>(path, small_params());
        }
        const Args fixed = {"-m", path, "-p", "A cat sat", "-c", "256"};
        const auto has   = [&](const char * flag) {
            return std::find(setting.flags.begin(), setting.flags.end(), flag) != setting.flags.end();
        };
        const json program = cli_json(fixed + setting.flags + (has("-n") ? Args{} : Args{"-n", "16"}) +
                                      (has("-s") ? Args{} : Args{"-s", "0"}));
        json       body    = setting.request;
        body["prompt"]     = "A cat sat";
        const json answer  = body_of(service->post("/v1/completions", body));
        CAPTURE(answer.dump());
        CHECK(answer["choices"][0]["text"] == program["text"]);
        CHECK(answer["usage"]["completion_tokens"] == program["tokens"].size());
        body["stream"]           = true;
        body["diffusion_frames"] = true;
        const auto chunks        = chunks_of(service->post("/v1/completions", body));
        CHECK(streamed_text(chunks) == program["text"]);
        json frames = json::array(); // the last frame holds the program's tokens, the steps are the program's
        for (const json & chunk : chunks) {
            if (chunk.contains("type")) {
                frames.push_back(chunk);
            }
        }
        REQUIRE(frames.size() == program["steps"].size());
        for (size_t i = 0; i < program["tokens"].size(); i++) {
            CHECK(frames.back()["tokens"][i] == program["tokens"][i]);
        }
    }
}
