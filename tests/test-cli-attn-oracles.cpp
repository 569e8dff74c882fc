// Recordings of the oracle checkpoints through llama-diffusion-cli against what the authors' code computed.

#include "support/attn-cli.h"
#include "support/converted.h"
#include "support/oracle.h"
#include "support/paths.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace buoy;
using namespace buoy::test;

namespace {

std::string joined(const std::vector<int32_t> & ids) {
    std::string text;
    for (int32_t id : ids) {
        text += std::to_string(id) + ",";
    }
    return text;
}

double relative(const std::vector<float> & actual, const std::vector<float> & expected) {
    return max_abs_diff(actual, expected) / max_abs(expected);
}

} // namespace

TEST_CASE("cli attn oracles: patterns, queries and keys of every layer and head") {
    for (const char * name : {"llada", "dream", "llama", "llama32-rope-scaled-tied", "qwen2", "qwen3-tied", "sdar",
                              "llada2-moe", "llada-moe"}) {
        CAPTURE(std::string(name));
        const Oracle        oracle(name);
        const std::string   dir    = temp_dir();
        const int32_t       B      = oracle.request().block_length;
        const Args          blocks = B > 0 ? Args{"--diffusion-block-length", std::to_string(B)} : Args{};
        const ProgramResult result =
            cli(Args{"-m", converted_oracle(name), "--tokens", joined(oracle.ids("input_ids")), "--logits-out",
                     dir + "/logits.npy", "--attn-dump", dir + "/run.npz", "--attn-taps", "pattern,q,k",
                     "--attn-reduce", "none", "--attn-dtype", "f32"} +
                blocks + exact_flags);
        CAPTURE(result.err);
        REQUIRE(result.code == 0);
        const NpzReader            file     = NpzReader::open(dir + "/run.npz");
        const std::vector<int64_t> shape    = oracle.shape("attn"); // [L, H, T, T]
        const std::vector<float>   expected = oracle.floats("attn");
        const size_t               n        = expected.size() / static_cast<size_t>(shape[0]);
        for (int layer = 0; layer < shape[0]; layer++) {
            const Array pattern = read_array(file, attn_name(0, layer));
            CHECK(pattern.shape == std::vector<int64_t>(shape.begin() + 1, shape.end()));
            const auto first = expected.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(layer) * n);
            CHECK(max_abs_diff(pattern.values, std::vector<float>(first, first + static_cast<std::ptrdiff_t>(n))) <=
                  1e-5);
        }
        const int qk_layer = oracle.expected["forward"]["qk_layer"];
        CHECK(relative(read_array(file, attn_name(0, qk_layer, "q")).values, oracle.floats("q_rope")) <= 1e-5);
        CHECK(relative(read_array(file, attn_name(0, qk_layer, "k")).values, oracle.floats("k_rope")) <= 1e-5);
    }
}

TEST_CASE("cli attn oracles: the same tokens with a recording, also from flash attention") {
    for (const char * name : {"llada", "dream", "llama"}) {
        const Oracle oracle(name);
        for (const char * cache : {"none", "prefix", "dual"}) {
            CAPTURE(std::string(name) + " " + cache);
            if (name == std::string("llama") && cache != std::string("none")) {
                continue;
            }
            Args args = {"-m",          converted_oracle(name),
                         "--tokens",    joined(oracle.ids("input_ids")),
                         "-n",          "16",
                         "-ctk",        "f32",
                         "-ctv",        "f32",
                         "--ignore-eos"};
            if (name != std::string("llama")) {
                args = args + Args{"--diffusion-cache", cache, "--diffusion-block-length", "8"};
            }
            const nlohmann::json plain = cli_json(args);
            const nlohmann::json taps =
                attn_json(args + Args{"--attn-dump", temp_dir() + "/run.npz", "--attn-layers", "0"});
            CHECK(taps["tokens"] == plain["tokens"]);
        }
    }
}
