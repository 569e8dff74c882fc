#include "support/hf-dir.h"

#include "support/paths.h"
#include "support/vocab-gguf.h"

#include <ggml.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <random>
#include <sstream>
#include <stdexcept>

namespace buoy::test {

namespace {

using Json = nlohmann::json;

constexpr int64_t N_EMBD = 32;
constexpr int64_t N_HEAD = 4;
constexpr int64_t N_KV   = 2;
constexpr int64_t D_HEAD = 8;
constexpr int64_t N_FF   = 64;

std::string tensor_bytes(const HfTensor & tensor) {
    const auto  n = static_cast<int64_t>(tensor.values.size());
    std::string bytes;
    if (tensor.dtype == "F32") {
        bytes.assign(reinterpret_cast<const char *>(tensor.values.data()), tensor.values.size() * 4);
    } else if (tensor.dtype == "F8_E4M3") {
        for (const float code : tensor.values) {
            bytes += static_cast<char>(static_cast<unsigned char>(code));
        }
    } else if (tensor.dtype == "F16") {
        bytes.resize(tensor.values.size() * 2);
        ggml_fp32_to_fp16_row(tensor.values.data(), reinterpret_cast<ggml_fp16_t *>(bytes.data()), n);
    } else {
        bytes.resize(tensor.values.size() * 2);
        ggml_fp32_to_bf16_row_ref(tensor.values.data(), reinterpret_cast<ggml_bf16_t *>(bytes.data()), n);
    }
    return bytes;
}

Json tiny_tokenizer() {
    const VocabGguf small = small_vocab();
    Json            vocab = Json::object();
    Json            added = Json::array();
    for (size_t i = 0; i < small.tokens.size(); ++i) {
        if (small.types[i] == 1) {
            vocab[small.tokens[i]] = i;
        } else {
            added.push_back({{"id", i}, {"content", small.tokens[i]}, {"special", true}});
        }
    }
    const char * regex =
        R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
    return {
        {"added_tokens", added},
        {"normalizer", {{"type", "NFC"}}},
        {"pre_tokenizer",
         {{"type", "Sequence"},
          {"pretokenizers",
           {{{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}, {"invert", false}},
            {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}}},
        {"post_processor", nullptr},
        {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", small.merges}}},
    };
}

Json tiny_config(const std::string & architecture, int64_t n_vocab) {
    if (architecture == "LLaDAModelLM") {
        return {{"architectures", {architecture}},
                {"vocab_size", n_vocab},
                {"embedding_size", n_vocab},
                {"d_model", N_EMBD},
                {"n_layers", 2},
                {"n_heads", N_HEAD},
                {"n_kv_heads", N_HEAD},
                {"mlp_hidden_size", N_FF},
                {"max_sequence_length", 128},
                {"rms_norm_eps", 1e-5},
                {"rope_theta", 500000.0},
                {"weight_tying", false}};
    }
    return {{"architectures", {architecture}}, {"vocab_size", n_vocab},          {"hidden_size", N_EMBD},
            {"num_hidden_layers", 2},          {"num_attention_heads", N_HEAD},  {"num_key_value_heads", N_KV},
            {"intermediate_size", N_FF},       {"max_position_embeddings", 128}, {"rms_norm_eps", 1e-6},
            {"rope_theta", 10000.0},           {"tie_word_embeddings", false}};
}

void add_layer(HfDir & dir, const std::string & architecture, int layer) {
    const bool        llada = architecture == "LLaDAModelLM";
    const int64_t     n_q   = N_HEAD * D_HEAD;
    const int64_t     n_kv  = llada ? n_q : N_KV * D_HEAD;
    const std::string block = (llada ? "model.transformer.blocks." : "model.layers.") + std::to_string(layer) + ".";
    const auto        add   = [&](const char * hf, const char * own, std::vector<int64_t> shape) {
        dir.tensors.push_back({block + (llada ? own : hf), std::move(shape), {}, "F32"});
    };
    add("input_layernorm.weight", "attn_norm.weight", {N_EMBD});
    add("self_attn.q_proj.weight", "q_proj.weight", {n_q, N_EMBD});
    add("self_attn.k_proj.weight", "k_proj.weight", {n_kv, N_EMBD});
    add("self_attn.v_proj.weight", "v_proj.weight", {n_kv, N_EMBD});
    add("self_attn.o_proj.weight", "attn_out.weight", {N_EMBD, n_q});
    add("post_attention_layernorm.weight", "ff_norm.weight", {N_EMBD});
    add("mlp.gate_proj.weight", "ff_proj.weight", {N_FF, N_EMBD});
    add("mlp.up_proj.weight", "up_proj.weight", {N_FF, N_EMBD});
    add("mlp.down_proj.weight", "ff_out.weight", {N_EMBD, N_FF});
    if (architecture == "DreamModel" || architecture == "Qwen2ForCausalLM") {
        add("self_attn.q_proj.bias", "", {n_q});
        add("self_attn.k_proj.bias", "", {n_kv});
        add("self_attn.v_proj.bias", "", {n_kv});
    }
    if (architecture == "Qwen3ForCausalLM") {
        add("self_attn.q_norm.weight", "", {D_HEAD});
        add("self_attn.k_norm.weight", "", {D_HEAD});
    }
}

} // namespace

std::string safetensors_bytes(const std::string & header, const std::string & data) {
    std::string bytes;
    for (int i = 0; i < 8; ++i) {
        bytes += static_cast<char>(header.size() >> (8 * i) & 0xff);
    }
    return bytes + header + data;
}

std::string safetensors_bytes(const std::vector<HfTensor> & tensors) {
    Json        header = {{"__metadata__", {{"format", "pt"}}}};
    std::string data;
    for (const HfTensor & tensor : tensors) {
        const size_t first = data.size();
        data += tensor_bytes(tensor);
        header[tensor.name] = {
            {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {first, data.size()}}};
    }
    return safetensors_bytes(header.dump(), data);
}

void write_file(const std::string & path, const std::string & bytes) {
    std::remove(path.c_str()); // truncating an old file makes some file systems sync
    std::ofstream out(path, std::ios::binary);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    if (!out.flush()) {
        throw std::runtime_error("can't write " + path);
    }
}

std::string read_file(const std::string & path) {
    std::ifstream      in(path, std::ios::binary);
    std::ostringstream bytes;
    bytes << in.rdbuf();
    return bytes.str();
}

HfTensor & HfDir::tensor(const std::string & name) {
    const auto found =
        std::find_if(tensors.begin(), tensors.end(), [&](const HfTensor & tensor) { return tensor.name == name; });
    if (found == tensors.end()) {
        throw std::runtime_error("no tensor " + name);
    }
    return *found;
}

void HfDir::remove(const std::string & name) { tensors.erase(tensors.begin() + (&tensor(name) - tensors.data())); }

std::string HfDir::write() const {
    const std::string dir = temp_dir();
    write_file(dir + "/config.json", config.dump());
    write_file(dir + "/tokenizer.json", tokenizer.dump());
    write_file(dir + "/tokenizer_config.json", tokenizer_config.dump());
    write_file(dir + "/model.safetensors", safetensors_bytes(tensors));
    return dir;
}

HfDir tiny_checkpoint(const std::string & architecture) {
    const bool    llada   = architecture == "LLaDAModelLM";
    const int64_t n_vocab = static_cast<int64_t>(small_vocab().tokens.size()) + 5;

    HfDir dir;
    dir.config           = tiny_config(architecture, n_vocab);
    dir.tokenizer        = tiny_tokenizer();
    dir.tokenizer_config = {{"eos_token", "<|im_end|>"}, {"add_bos_token", false}};
    dir.tensors          = {
                 {llada ? "model.transformer.wte.weight" : "model.embed_tokens.weight", {n_vocab, N_EMBD}, {}, "F32"},
                 {llada ? "model.transformer.ln_f.weight" : "model.norm.weight", {N_EMBD}, {}, "F32"},
                 {llada ? "model.transformer.ff_out.weight" : "lm_head.weight", {n_vocab, N_EMBD}, {}, "F32"},
    };
    for (int layer = 0; layer < 2; ++layer) {
        add_layer(dir, architecture, layer);
    }
    std::minstd_rand random(7);
    for (HfTensor & tensor : dir.tensors) {
        size_t n = 1;
        for (const int64_t dim : tensor.shape) {
            n *= static_cast<size_t>(dim);
        }
        for (size_t i = 0; i < n; ++i) {
            tensor.values.push_back(static_cast<float>(random() % 2001) / 1000.0F - 1.0F);
        }
    }
    return dir;
}

} // namespace buoy::test
