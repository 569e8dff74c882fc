#include "buoy/error.h"
#include "io/gguf-file.h"
#include "io/safetensors.h"
#include "support/converted.h"
#include "support/llama-run.h"
#include "support/oracle.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstring>
#include <fstream>
#include <map>

// Every claim here is checked without the converter's own tables: names, permutation and conversion are written anew.

using namespace buoy;
using namespace buoy::test;

namespace {

using Json = nlohmann::json;

const std::vector<std::string> ORACLES = {
    "llada", "llada-256-bf16", "dream", "llama", "llama32-rope-scaled-tied", "qwen2", "qwen3-tied",
};

Json oracle_file(const std::string & name, const char * file) {
    std::ifstream in(oracle_dir(name) + "/" + file);
    return Json::parse(in);
}

std::vector<float> source_floats(const Safetensors & source, const SafetensorsTensor & tensor) {
    std::vector<char> raw(static_cast<size_t>(tensor.size));
    source.read(tensor, 0, raw.data(), raw.size());
    std::vector<float> values(static_cast<size_t>(tensor.n_elements()));
    if (tensor.dtype == "F32") {
        std::memcpy(values.data(), raw.data(), raw.size());
        return values;
    }
    REQUIRE(tensor.dtype == "BF16");
    for (size_t i = 0; i < values.size(); ++i) {
        uint16_t half;
        std::memcpy(&half, raw.data() + 2 * i, 2);
        const uint32_t bits = static_cast<uint32_t>(half) << 16;
        std::memcpy(&values[i], &bits, 4);
    }
    return values;
}

std::vector<float> gguf_floats(const GgufFile & file, const GgufTensor & tensor) {
    std::vector<char> raw(static_cast<size_t>(tensor.size));
    file.file(tensor.file).read(tensor.offset, raw.data(), raw.size());
    const int64_t      n = tensor.ne[0] * tensor.ne[1];
    std::vector<float> values(static_cast<size_t>(n));
    if (tensor.type == GGML_TYPE_F32) {
        std::memcpy(values.data(), raw.data(), raw.size());
    } else {
        ggml_get_type_traits(tensor.type)->to_float(raw.data(), values.data(), n);
    }
    return values;
}

// The checkpoint's name of a GGUF tensor.
std::string source_name(const std::string & gguf, bool llada) {
    static const std::map<std::string, std::string> hf = {
        {"attn_norm", "input_layernorm"},    {"attn_q", "self_attn.q_proj"},
        {"attn_k", "self_attn.k_proj"},      {"attn_v", "self_attn.v_proj"},
        {"attn_output", "self_attn.o_proj"}, {"attn_q_norm", "self_attn.q_norm"},
        {"attn_k_norm", "self_attn.k_norm"}, {"ffn_norm", "post_attention_layernorm"},
        {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},
        {"ffn_down", "mlp.down_proj"},
    };
    static const std::map<std::string, std::string> own = {
        {"attn_norm", "attn_norm"}, {"attn_q", "q_proj"},        {"attn_k", "k_proj"},
        {"attn_v", "v_proj"},       {"attn_output", "attn_out"}, {"ffn_norm", "ff_norm"},
        {"ffn_gate", "ff_proj"},    {"ffn_up", "up_proj"},       {"ffn_down", "ff_out"},
    };
    if (gguf == "token_embd.weight") {
        return llada ? "model.transformer.wte.weight" : "model.embed_tokens.weight";
    }
    if (gguf == "output_norm.weight") {
        return llada ? "model.transformer.ln_f.weight" : "model.norm.weight";
    }
    if (gguf == "output.weight") {
        return llada ? "model.transformer.ff_out.weight" : "lm_head.weight";
    }
    const size_t      layer_end = gguf.find('.', 4);
    const size_t      part_end  = gguf.find('.', layer_end + 1);
    const std::string layer     = gguf.substr(4, layer_end - 4);
    const std::string part      = gguf.substr(layer_end + 1, part_end - layer_end - 1);
    const std::string suffix    = gguf.substr(part_end);
    return (llada ? "model.transformer.blocks." : "model.layers.") + layer + "." + (llada ? own : hf).at(part) + suffix;
}

// Rotate-half pairs rows j and j + D/2 of a head; ggml's NORM pairs rows 2j and 2j + 1.
std::vector<float> paired(const std::vector<float> & values, size_t n_cols, size_t head_dim) {
    std::vector<float> out(values.size());
    const size_t       half = head_dim / 2;
    for (size_t head = 0; head < values.size() / n_cols / head_dim; ++head) {
        for (size_t j = 0; j < half; ++j) {
            for (size_t c = 0; c < n_cols; ++c) {
                out[(head * head_dim + 2 * j) * n_cols + c]     = values[(head * head_dim + j) * n_cols + c];
                out[(head * head_dim + 2 * j + 1) * n_cols + c] = values[(head * head_dim + j + half) * n_cols + c];
            }
        }
    }
    return out;
}

// Largest error allowed by the stored type: none, half a unit in the last place of f16 or bf16, half a step of the block.
double tolerance(ggml_type type, const std::vector<float> & values, size_t i) {
    const double magnitude = std::fabs(static_cast<double>(values[i]));
    switch (type) {
        case GGML_TYPE_F32: return 0;
        case GGML_TYPE_F16: return std::max(magnitude / 2048, std::ldexp(1.0, -25));
        case GGML_TYPE_BF16: return magnitude / 256;
        default: break;
    }
    double largest = 0;
    for (size_t k = i / 32 * 32; k < i / 32 * 32 + 32; ++k) {
        largest = std::max(largest, std::fabs(static_cast<double>(values[k])));
    }
    const double step = largest / 127; // stored as f16, down to where those get coarse
    return step / 2 + 127 * std::max(step / 2048, std::ldexp(1.0, -25));
}

ggml_type expected_type(const std::string & outtype, bool matrix) {
    if (!matrix || outtype == "f32") {
        return GGML_TYPE_F32;
    }
    return outtype == "f16" ? GGML_TYPE_F16 : outtype == "bf16" ? GGML_TYPE_BF16 : GGML_TYPE_Q8_0;
}

void check_contents(const std::string & name, const std::string & outtype) {
    CAPTURE(name);
    CAPTURE(outtype);
    const GgufFile    file     = GgufFile::open(converted_oracle(name, outtype));
    const Safetensors source   = Safetensors::open_dir(oracle_dir(name));
    const std::string arch     = file.require_string("general.architecture");
    const bool        permuted = arch == "llada" || arch == "llama";
    const auto        head_dim = static_cast<size_t>(file.require_int(arch + ".attention.key_length", 1, 1024));

    size_t n_found = 0;
    for (const GgufTensor & tensor : file.tensors()) {
        if (tensor.name == "rope_freqs.weight") {
            continue;
        }
        CAPTURE(tensor.name);
        const SafetensorsTensor * from = source.find(source_name(tensor.name, arch == "llada"));
        REQUIRE(from != nullptr);
        ++n_found;
        const bool matrix = from->shape.size() == 2;
        CHECK(tensor.type == expected_type(outtype, matrix));
        CHECK(tensor.ne[0] == from->shape.back());
        CHECK(tensor.ne[1] == (matrix ? from->shape[0] : 1));

        std::vector<float> expected = source_floats(source, *from);
        if (permuted &&
            (tensor.name.find("attn_q.") != std::string::npos || tensor.name.find("attn_k.") != std::string::npos)) {
            expected = paired(expected, matrix ? static_cast<size_t>(from->shape[1]) : 1, head_dim);
        }
        const std::vector<float> actual = gguf_floats(file, tensor);
        REQUIRE(actual.size() == expected.size());
        size_t n_wrong = 0;
        for (size_t i = 0; i < actual.size(); ++i) {
            const double error = std::fabs(static_cast<double>(actual[i]) - static_cast<double>(expected[i]));
            n_wrong += error <= tolerance(tensor.type, expected, i) ? 0 : 1;
        }
        CHECK(n_wrong == 0);
    }
    CHECK(n_found == source.tensors().size());
}

} // namespace

TEST_CASE("convert: every tensor's content equals the checkpoint's") {
    for (const std::string & name : ORACLES) {
        for (const char * outtype : {"f32", "f16", "bf16", "q8_0"}) {
            check_contents(name, outtype);
        }
    }
}

TEST_CASE("convert: libllama loads the file and computes the authors' logits") {
    for (const std::string & name : ORACLES) {
        const Oracle             oracle(name);
        const std::vector<float> expected = oracle.floats("logits");
        // The bars; plain attention on F32 reaches 2e-12.
        for (const auto & [outtype, bar] :
             std::map<std::string, double>{{"f32", 1e-8}, {"f16", 1e-5}, {"q8_0", 1e-2}}) {
            CAPTURE(name);
            CAPTURE(outtype);
            const std::vector<float> logits = llama_logits(converted_oracle(name, outtype), oracle.ids("input_ids"));
            const double             error  = nmse(logits, expected);
            CHECK(error <= bar);
        }
    }
}

TEST_CASE("convert: the keys say what the config says") {
    for (const std::string & name : ORACLES) {
        CAPTURE(name);
        const GgufFile    file   = GgufFile::open(converted_oracle(name));
        const Json        config = oracle_file(name, "config.json");
        const std::string arch   = file.require_string("general.architecture");
        const bool        llada  = arch == "llada";
        const auto        number = [&](const std::string & key) { return file.require_int(arch + key, 0, INT32_MAX); };

        CHECK(number(".embedding_length") == config[llada ? "d_model" : "hidden_size"]);
        CHECK(number(".block_count") == config[llada ? "n_layers" : "num_hidden_layers"]);
        CHECK(number(".feed_forward_length") == config[llada ? "mlp_hidden_size" : "intermediate_size"]);
        CHECK(number(".attention.head_count") == config[llada ? "n_heads" : "num_attention_heads"]);
        CHECK(number(".attention.head_count_kv") == config[llada ? "n_kv_heads" : "num_key_value_heads"]);
        CHECK(number(".context_length") == config[llada ? "max_sequence_length" : "max_position_embeddings"]);
        CHECK(number(".vocab_size") == config["vocab_size"]);
        CHECK(file.require_float(arch + ".rope.freq_base") == config["rope_theta"].get<double>());
        CHECK(file.require_float(arch + ".attention.layer_norm_rms_epsilon") ==
              doctest::Approx(config["rms_norm_eps"].get<double>()).epsilon(1e-6));
        CHECK(file.array_size("tokenizer.ggml.tokens") == config["vocab_size"].get<uint64_t>());
        CHECK(file.require_int("tokenizer.ggml.eos_token_id", 0, INT32_MAX) == config["eos_token_id"]);
        CHECK(file.require_string("tokenizer.chat_template") ==
              oracle_file(name, "tokenizer_config.json")["chat_template"]);
        if (config.contains("mask_token_id")) {
            CHECK(file.require_int("tokenizer.ggml.mask_token_id", 0, INT32_MAX) == config["mask_token_id"]);
            CHECK(file.get_bool(arch + ".attention.causal") == false);
            CHECK(file.get_bool("diffusion.shift_logits") == !llada);
        } else {
            CHECK(!file.has("tokenizer.ggml.mask_token_id"));
            CHECK(file.get_bool(arch + ".attention.causal") == true);
        }
    }
    const auto pre = [](const char * name) {
        return GgufFile::open(converted_oracle(name)).require_string("tokenizer.ggml.pre");
    };
    CHECK(pre("llada") == "llada-moe");
    CHECK(pre("llama") == "llama-bpe");
    CHECK(pre("qwen2") == "qwen2");
    const auto normalizer = [](const char * name) {
        return GgufFile::open(converted_oracle(name)).require_string("tokenizer.ggml.normalizer");
    };
    CHECK(normalizer("llada") == "none");
    CHECK(normalizer("dream") == "nfc");
}
