#include "convert.h"

#include "buoy/error.h"
#include "io/gguf-file.h"
#include "support/converted.h"
#include "support/hf-dir.h"
#include "support/llama-run.h"
#include "support/paths.h"

#include <doctest/doctest.h>
#include <ggml.h>

#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <sys/resource.h>
#include <sys/stat.h>

using namespace buoy;
using namespace buoy::test;

namespace {

namespace fs = std::filesystem;

const char * const ARCHITECTURES[] = {"LLaDAModelLM", "DreamModel", "LlamaForCausalLM", "Qwen2ForCausalLM",
                                      "Qwen3ForCausalLM"};

struct Converted {
    std::string              path;
    std::string              error; // "" if it worked
    ErrorKind                kind = ErrorKind::request;
    std::vector<std::string> warnings;

    GgufFile open() const { return GgufFile::open(path); }
    bool     warned(const std::string & part) const {
            for (const std::string & warning : warnings) {
                if (warning.find(part) != std::string::npos) {
                    return true;
            }
        }
            return false;
    }
    bool failed(const std::string & part) const {
        INFO("error: ", error);
        const bool found = error.find(part) != std::string::npos;
        CHECK(found);
        CHECK(error.find('\n') == std::string::npos);
        return found;
    }
};

Converted convert(ConvertParams params) {
    Converted result;
    result.path = params.output;
    params.log  = [&](LogLevel level, const std::string & message) {
        if (level == LogLevel::warn) {
            result.warnings.push_back(message);
        }
    };
    try {
        convert_hf(params);
    } catch (const Error & e) {
        result.error = e.what();
        result.kind  = e.kind();
    }
    return result;
}

Converted convert_dir(const std::string & input, const std::string & output, OutType outtype = OutType::f32) {
    ConvertParams params;
    params.input   = input;
    params.output  = output;
    params.outtype = outtype;
    return convert(params);
}

Converted convert(const HfDir & dir, OutType outtype = OutType::f32) {
    return convert_dir(dir.write(), temp_dir() + "/out.gguf", outtype);
}

size_t n_files(const std::string & path) {
    const fs::directory_iterator dir(fs::path(path).parent_path());
    return static_cast<size_t>(std::distance(fs::begin(dir), fs::end(dir)));
}

} // namespace

TEST_CASE("convert: every architecture loads in libllama") {
    for (const char * architecture : ARCHITECTURES) {
        for (const OutType outtype : {OutType::f32, OutType::f16, OutType::bf16, OutType::q8_0}) {
            CAPTURE(architecture);
            const Converted result = convert(tiny_checkpoint(architecture), outtype);
            REQUIRE(result.error == "");
            CHECK(result.warnings.empty());
            for (const float logit : llama_logits(result.path, {1, 2, 3})) {
                REQUIRE(std::isfinite(logit));
            }
        }
    }
}

TEST_CASE("convert: F16 and BF16 checkpoints, shards and names without the prefix") {
    HfDir             dir              = tiny_checkpoint("LlamaForCausalLM");
    const GgufFile    reference        = convert(dir).open();
    const std::string embedding        = "model.embed_tokens.weight";
    dir.tensor(embedding).dtype        = "BF16";
    dir.tensor("lm_head.weight").dtype = "F16";
    for (float & value : dir.tensor(embedding).values) {
        value = std::round(value * 64) / 64; // exact in both
    }
    const std::vector<float> exact = dir.tensor(embedding).values;
    for (HfTensor & tensor : dir.tensors) {
        if (tensor.name.compare(0, 6, "model.") == 0) {
            tensor.name = tensor.name.substr(6);
        }
    }
    const Converted result = convert(dir);
    REQUIRE(result.error == "");
    CHECK(floats(result.open(), "token_embd.weight") == exact);
    CHECK(floats(result.open(), "blk.1.attn_q.weight") == floats(reference, "blk.1.attn_q.weight"));

    const std::string sharded = dir.write();
    const auto        middle  = dir.tensors.begin() + 3;
    write_file(sharded + "/one.safetensors", safetensors_bytes({dir.tensors.begin(), middle}));
    write_file(sharded + "/two.safetensors", safetensors_bytes({middle, dir.tensors.end()}));
    nlohmann::json map;
    for (auto it = dir.tensors.begin(); it != dir.tensors.end(); ++it) {
        map[it->name] = it < middle ? "one.safetensors" : "two.safetensors";
    }
    write_file(sharded + "/model.safetensors.index.json", nlohmann::json{{"weight_map", map}}.dump());
    fs::remove(sharded + "/model.safetensors");
    const Converted from_shards = convert_dir(sharded, sharded + "/out.gguf", OutType::f32);
    REQUIRE(from_shards.error == "");
    CHECK(floats(from_shards.open(), "output.weight") == floats(result.open(), "output.weight"));
}

TEST_CASE("convert: biases of q and k are reordered like their rows") {
    HfDir dir = tiny_checkpoint("LlamaForCausalLM");
    dir.tensors.push_back({"model.layers.0.self_attn.q_proj.bias", {32}, {}, "F32"});
    for (int i = 0; i < 32; ++i) {
        dir.tensors.back().values.push_back(static_cast<float>(i));
    }
    const Converted result = convert(dir);
    REQUIRE(result.error == "");
    const std::vector<float> bias = floats(result.open(), "blk.0.attn_q.bias");
    CHECK(std::vector<float>(bias.begin(), bias.begin() + 8) == std::vector<float>{0, 4, 1, 5, 2, 6, 3, 7});
    CHECK(std::vector<float>(bias.begin() + 8, bias.begin() + 12) == std::vector<float>{8, 12, 9, 13});
}

TEST_CASE("convert: tied embeddings, whichever is stored") {
    HfDir dir = tiny_checkpoint("LlamaForCausalLM");
    SUBCASE("untied, one missing") {
        dir.remove("lm_head.weight");
        convert(dir).failed("1 tensors of architecture llama are missing: lm_head.weight");
    }
    SUBCASE("tied, only the head") {
        dir.config["tie_word_embeddings"] = true;
        const std::vector<float> values   = dir.tensor("lm_head.weight").values;
        dir.remove("model.embed_tokens.weight");
        const Converted result = convert(dir);
        REQUIRE(result.error == "");
        CHECK(floats(result.open(), "token_embd.weight") == values);
        CHECK(result.open().find_tensor("output.weight") == nullptr);
    }
    SUBCASE("tied, both, equal") {
        dir.config["tie_word_embeddings"]   = true;
        dir.tensor("lm_head.weight").values = dir.tensor("model.embed_tokens.weight").values;
        const Converted result              = convert(dir);
        REQUIRE(result.error == "");
        CHECK(result.warnings.empty());
        CHECK(result.open().find_tensor("output.weight") == nullptr);
    }
    SUBCASE("tied, both, different") {
        dir.config["tie_word_embeddings"] = true;
        CHECK(convert(dir).warned("'lm_head.weight' differs from 'model.embed_tokens.weight'"));
    }
    SUBCASE("not said, one stored") {
        dir.config.erase("tie_word_embeddings");
        dir.remove("lm_head.weight");
        CHECK(convert(dir).error == "");
    }
    SUBCASE("tied, none stored") {
        dir.config["tie_word_embeddings"] = true;
        dir.remove("lm_head.weight");
        dir.remove("model.embed_tokens.weight");
        convert(dir).failed("missing: model.embed_tokens.weight");
    }
}

TEST_CASE("convert: missing, extra and misshapen tensors") {
    HfDir dir = tiny_checkpoint("Qwen2ForCausalLM");
    SUBCASE("missing") {
        dir.remove("model.layers.1.mlp.up_proj.weight");
        dir.remove("model.layers.0.self_attn.q_proj.bias");
        convert(dir).failed("2 tensors of architecture qwen2 are missing: model.layers.0.self_attn.q_proj.bias, "
                            "model.layers.1.mlp.up_proj.weight");
    }
    SUBCASE("more layers than stored") {
        dir.config["num_hidden_layers"] = 512;
        convert(dir).failed("more");
    }
    SUBCASE("extra") {
        dir.tensors.push_back({"model.layers.7.mlp.up_proj.weight", {1}, {0}, "F32"});
        dir.tensors.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", {1}, {0}, "F32"});
        const Converted result = convert(dir);
        CHECK(result.error == "");
        REQUIRE(result.warnings.size() == 1);
        CHECK(result.warned("1 tensors have no place in architecture qwen2 and are left out: model.layers.7"));
    }
    SUBCASE("a bias that would be lost") {
        dir.tensors.push_back({"model.layers.0.mlp.up_proj.bias", {64}, std::vector<float>(64), "F32"});
        convert(dir).failed("'model.layers.0.mlp.up_proj.bias' has no place");
    }
    SUBCASE("shape") {
        dir.tensor("model.layers.0.mlp.up_proj.weight").shape = {32, 64};
        convert(dir).failed("'model.layers.0.mlp.up_proj.weight' has shape [32, 64], the config makes it [64, 32]");
    }
    SUBCASE("a vocabulary that the embedding does not have") {
        dir.config["vocab_size"] = 2147483647;
        convert(dir).failed("the config makes it [2147483647, 32]");
    }
}

TEST_CASE("convert: values that are not finite are reported") {
    HfDir dir                                                 = tiny_checkpoint("LlamaForCausalLM");
    dir.tensor("model.layers.0.mlp.up_proj.weight").values[5] = NAN;
    dir.tensor("model.layers.0.mlp.up_proj.weight").values[9] = -INFINITY;
    dir.tensor("lm_head.weight").values[3]                    = 70000;
    const Converted exact                                     = convert(dir);
    CHECK(exact.warnings.size() == 1);
    CHECK(exact.warned("model.layers.0.mlp.up_proj.weight: 2 values are NaN or infinite"));
    const Converted half = convert(dir, OutType::f16);
    CHECK(half.error == "");
    CHECK(half.warnings.size() == 2);
    CHECK(half.warned("lm_head.weight: 1 values are too large for f16"));
    CHECK(convert(dir, OutType::q8_0).warned("2 values are NaN or infinite"));
}

TEST_CASE("convert: rows that do not fill blocks fall back to f16") {
    HfDir dir                       = tiny_checkpoint("LlamaForCausalLM");
    dir.config["intermediate_size"] = 40;
    for (const char * layer : {"0", "1"}) {
        const std::string mlp                = std::string("model.layers.") + layer + ".mlp.";
        dir.tensor(mlp + "gate_proj.weight") = {mlp + "gate_proj.weight", {40, 32}, std::vector<float>(1280, 1), "F32"};
        dir.tensor(mlp + "up_proj.weight")   = {mlp + "up_proj.weight", {40, 32}, std::vector<float>(1280, 1), "F32"};
        dir.tensor(mlp + "down_proj.weight") = {mlp + "down_proj.weight", {32, 40}, std::vector<float>(1280, 1), "F32"};
    }
    const Converted result = convert(dir, OutType::q8_0);
    REQUIRE(result.error == "");
    CHECK(result.warned("2 tensors have rows that do not fill blocks of 32: f16 instead of q8_0 for blk.0.ffn_down"));
    CHECK(result.open().find_tensor("blk.0.ffn_down.weight")->type == GGML_TYPE_F16);
    CHECK(result.open().find_tensor("blk.0.ffn_up.weight")->type == GGML_TYPE_Q8_0);
    CHECK(result.open().find_tensor("blk.0.ffn_norm.weight")->type == GGML_TYPE_F32);
}

TEST_CASE("convert: the number of threads changes no byte") {
    HfDir dir                       = tiny_checkpoint("LlamaForCausalLM");
    dir.config["intermediate_size"] = 40000; // more than one piece's worth is not needed, several threads' worth is
    for (const char * layer : {"0", "1"}) {
        const std::string mlp = std::string("model.layers.") + layer + ".mlp.";
        for (const char * name : {"gate_proj.weight", "up_proj.weight", "down_proj.weight"}) {
            HfTensor & tensor = dir.tensor(mlp + name);
            std::replace(tensor.shape.begin(), tensor.shape.end(), int64_t(64), int64_t(40000));
            tensor.values.resize(40000 * 32);
            for (size_t i = 0; i < tensor.values.size(); ++i) {
                tensor.values[i] = std::sin(static_cast<float>(i));
            }
        }
    }
    const std::string input = dir.write();
    std::string       first;
    for (const int n_threads : {1, 3}) {
        ConvertParams params;
        params.input     = input;
        params.output    = input + "/out" + std::to_string(n_threads) + ".gguf";
        params.outtype   = OutType::q8_0;
        params.n_threads = n_threads;
        REQUIRE(convert(params).error == "");
        const std::string bytes = read_file(params.output);
        CHECK((first.empty() || bytes == first));
        first = bytes;
    }
}

TEST_CASE("convert: RoPE scaling") {
    HfDir dir = tiny_checkpoint("LlamaForCausalLM");
    SUBCASE("linear") {
        dir.config["rope_scaling"] = {{"type", "linear"}, {"factor", 4.0}};
        const GgufFile file        = convert(dir).open();
        CHECK(file.require_string("llama.rope.scaling.type") == "linear");
        CHECK(file.require_float("llama.rope.scaling.factor") == 4);
    }
    SUBCASE("yarn, all in rope_parameters") {
        dir.config.erase("rope_theta");
        dir.config["rope_parameters"] = {{"rope_type", "yarn"},    {"factor", 4.0},
                                         {"rope_theta", 5000.0},   {"beta_fast", 16},
                                         {"beta_slow", 2},         {"original_max_position_embeddings", 64},
                                         {"attention_factor", 1.5}};
        const GgufFile file           = convert(dir).open();
        CHECK(file.require_float("llama.rope.freq_base") == 5000);
        CHECK(file.require_string("llama.rope.scaling.type") == "yarn");
        CHECK(file.require_int("llama.rope.scaling.original_context_length", 0, 1000) == 64);
        CHECK(file.require_float("llama.rope.scaling.yarn_beta_fast") == 16);
        CHECK(file.require_float("llama.rope.scaling.attn_factor") ==
              doctest::Approx(1.5 / (0.1 * std::log(4.0) + 1)).epsilon(1e-6));
    }
    SUBCASE("llama3") {
        dir.config["rope_scaling"]       = {{"rope_type", "llama3"},
                                            {"factor", 8.0},
                                            {"low_freq_factor", 1.0},
                                            {"high_freq_factor", 4.0},
                                            {"original_max_position_embeddings", 64}};
        const GgufFile           file    = convert(dir).open();
        const std::vector<float> factors = floats(file, "rope_freqs.weight");
        REQUIRE(factors.size() == 4);
        // Wave lengths 2π·10^i: 6.3 is shorter than 64/4, the last two are longer than 64.
        CHECK(factors[0] == 1);
        CHECK(factors[1] > 1);
        CHECK(factors[1] < 8);
        const double smooth = (64 / (20 * M_PI) - 1) / 3;
        CHECK(factors[1] == doctest::Approx(1 / ((1 - smooth) / 8 + smooth)).epsilon(1e-6));
        CHECK(factors[2] == 8);
        CHECK(factors[3] == 8);
        CHECK(!file.has("llama.rope.scaling.type"));
    }
    SUBCASE("null, false and default mean none") {
        for (const nlohmann::json & none :
             {nlohmann::json(), nlohmann::json(false), nlohmann::json{{"rope_type", "default"}}}) {
            dir.config["rope_scaling"] = none;
            CHECK(!convert(dir).open().has("llama.rope.scaling.type"));
        }
    }
    SUBCASE("wrong") {
        dir.config["rope_scaling"] = {{"type", "dynamic"}, {"factor", 2}};
        convert(dir).failed("RoPE scaling 'dynamic' is not known");
        dir.config["rope_scaling"] = {{"type", "linear"}, {"factor", 0}};
        convert(dir).failed("factor 0");
        dir.config["rope_scaling"] = {{"type", "llama3"}, {"factor", 2}};
        convert(dir).failed("no 'original_max_position_embeddings'");
    }
}

TEST_CASE("convert: a config that makes no sense") {
    HfDir      dir    = tiny_checkpoint("LlamaForCausalLM");
    const auto broken = [&](const char * key, const nlohmann::json & value) {
        HfDir copy       = dir;
        copy.config[key] = value;
        return convert(copy);
    };
    broken("architectures", {"NoSuchModel"}).failed("'NoSuchModel' is not known; known: A2DLlamaLMHeadModel");
    broken("architectures", "LlamaForCausalLM").failed("no 'architectures' list");
    broken("num_attention_heads", 0).failed("'num_attention_heads' or 'n_heads' is 0, expected 1 to");
    broken("num_attention_heads", 5).failed("not a multiple");
    broken("num_attention_heads", "4").failed("is string, expected an integer");
    broken("num_hidden_layers", 1000000000).failed("expected 1 to 512");
    broken("head_dim", 7).failed("even");
    broken("rms_norm_eps", nullptr).failed("no 'rms_norm_eps'");
    broken("rms_norm_eps", -1).failed("rms_norm_eps -1");
    broken("rope_theta", 0).failed("rope_theta 0");
    broken("hidden_act", "gelu").failed("'hidden_act' is \"gelu\", only \"silu\" can be converted");
    broken("hidden_size", -32).failed("is -32");
}

TEST_CASE("convert: inputs that are not checkpoints") {
    const auto from = [](const std::string & input) { return convert_dir(input, temp_dir() + "/out.gguf"); };
    from("/no/such/place").failed("not a directory");
    from(temp_dir()).failed("config.json");

    const std::string input = tiny_checkpoint("LlamaForCausalLM").write();
    write_file(input + "/config.json", "{");
    from(input).failed("not valid JSON");
    write_file(input + "/config.json", "[]");
    from(input).failed("expected an object");
    write_file(input + "/config.json", "");
    from(input).failed("config.json");
    fs::remove(input + "/config.json");
    REQUIRE(mkfifo((input + "/config.json").c_str(), 0600) == 0);
    from(input).failed("config.json");
}

TEST_CASE("convert: the output's name") {
    const std::string input = tiny_checkpoint("LlamaForCausalLM").write();
    const std::string place = temp_dir();
    ConvertParams     params;
    params.input  = input;
    params.output = place + "/out.gguf";
    write_file(params.output, "precious");
    convert(params).failed("the output exists (`force` replaces it)");
    CHECK(read_file(params.output) == "precious");
    params.force = true;
    CHECK(convert(params).error == "");
    CHECK(read_file(params.output).compare(0, 4, "GGUF") == 0);
    CHECK(n_files(params.output) == 1);

    params.output = "/dev/null";
    convert(params).failed("not a regular file");
    params.output = place + "/no/such/dir/out.gguf";
    convert(params).failed("can't create the output");
    params.output = "";
    convert(params).failed("no output");
}

TEST_CASE("convert: a full disk or a cancel leaves nothing behind") {
    ConvertParams params;
    params.input  = tiny_checkpoint("LlamaForCausalLM").write();
    params.output = temp_dir() + "/out.gguf";
    SUBCASE("full") {
        rlimit before = {};
        REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
        rlimit small       = before;
        small.rlim_cur     = 20000; // the header fits, the tensors do not
        const auto handler = std::signal(SIGXFSZ, SIG_IGN);
        REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
        const Converted result = convert(params);
        setrlimit(RLIMIT_FSIZE, &before);
        std::signal(SIGXFSZ, handler);
        result.failed("can't write");
        CHECK(result.kind == ErrorKind::runtime);
    }
    SUBCASE("cancelled") {
        uint64_t done   = 0;
        params.progress = [&](uint64_t value, uint64_t total) {
            CHECK(value >= done);
            CHECK(value <= total);
            done = value;
            return value < total / 2;
        };
        const Converted result = convert(params);
        result.failed("cancelled");
        CHECK(result.kind == ErrorKind::runtime);
        CHECK(done > 0);
    }
    CHECK(n_files(params.output) == 0);
}

TEST_CASE("convert: names, sizes and licence") {
    HfDir             dir   = tiny_checkpoint("LlamaForCausalLM");
    const std::string input = dir.write();
    write_file(input + "/README.md", "---\nlanguage: en\nlicense: apache-2.0\r\n---\n# A model\n");
    const Converted result = convert_dir(input, input + "/out.gguf", OutType::q8_0);
    REQUIRE(result.error == "");
    const GgufFile file = result.open();
    CHECK(file.require_string("general.license") == "apache-2.0");
    CHECK(file.require_string("general.name") == fs::path(input).filename().string());
    CHECK(file.require_string("general.type") == "model");
    CHECK(file.require_string("general.size_label") == "36K");
    CHECK(file.require_int("general.file_type", 0, 100) == 7);
    CHECK_THROWS_AS(parse_outtype("q4_9"), Error);
}

TEST_CASE("convert: a recommended length of blocks") {
    HfDir dir                              = tiny_checkpoint("LLaDAModelLM");
    dir.config["recommended_block_length"] = 8;
    CHECK(convert(dir).open().get_int("diffusion.recommended_block_length") == 8);
    dir.config["recommended_block_length"] = -1;
    CHECK(convert(dir).error.find("recommended_block_length") != std::string::npos);
}
