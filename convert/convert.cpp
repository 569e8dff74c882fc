#include "convert.h"

#include "arch.h"
#include "buoy/error.h"
#include "io/gguf-writer.h"
#include "io/json-file.h"
#include "io/pending-file.h"
#include "io/printable.h"
#include "tensor-data.h"
#include "tokenizer.h"

#include <cmath>
#include <filesystem>
#include <sstream>
#include <thread>

namespace buoy {

namespace {

namespace fs = std::filesystem;

constexpr uint32_t FILE_TYPES[] = {0, 1, 32, 7}; // general.file_type of f32, f16, bf16, q8_0

// 656K, 1.2B, 8.0B: two digits at least, as the GGUF naming convention has it.
std::string size_label(int64_t n_parameters) {
    const double       n     = static_cast<double>(n_parameters);
    const char *       unit  = n >= 1e12 ? "T" : n >= 1e9 ? "B" : n >= 1e6 ? "M" : "K";
    const double       value = n / (n >= 1e12 ? 1e12 : n >= 1e9 ? 1e9 : n >= 1e6 ? 1e6 : 1e3);
    std::ostringstream out;
    out.imbue(std::locale::classic());
    out.setf(std::ios::fixed);
    out.precision(std::lround(value) < 10 ? 1 : 0);
    out << value << unit;
    return out.str();
}

// `license: mit` of the front matter that a model card opens with.
std::optional<std::string> card_license(const std::string & dir) {
    const std::string path = (fs::path(dir) / "README.md").string();
    std::error_code   error;
    if (!fs::is_regular_file(path, error) || fs::file_size(path, error) == 0) {
        return std::nullopt;
    }
    std::istringstream card(load_text(path));
    std::string        line;
    if (!std::getline(card, line) || line.compare(0, 3, "---") != 0) {
        return std::nullopt;
    }
    while (std::getline(card, line) && line.compare(0, 3, "---") != 0) {
        if (line.compare(0, 9, "license: ") == 0) {
            const std::string value = line.substr(9, line.find_last_not_of(" \r") - 8);
            return value.empty() ? std::nullopt : std::optional<std::string>(value);
        }
    }
    return std::nullopt;
}

std::string model_name(const std::string & dir) {
    std::error_code error;
    const fs::path  path = fs::weakly_canonical(dir, error);
    return printable(path.filename().string());
}

void set_general(GgufWriter & header, const ArchMapping & mapping, const ConvertOptions & options,
                 const std::vector<PlannedTensor> & tensors) {
    int64_t n_parameters = 0;
    for (const PlannedTensor & tensor : tensors) {
        n_parameters += tensor.n_rows * tensor.n_cols;
    }
    header.set("general.architecture", mapping.arch);
    header.set("general.type", "model");
    header.set("general.name", model_name(options.input));
    header.set("general.size_label", size_label(n_parameters));
    if (const std::optional<std::string> license = card_license(options.input)) {
        header.set("general.license", *license);
    }
    header.set("general.file_type", FILE_TYPES[static_cast<int>(options.outtype)]);
    header.set("general.quantization_version", static_cast<uint32_t>(GGML_QNT_VERSION));
}

void set_rope(GgufWriter & header, const std::string & arch, const HfParams & params) {
    const RopeScaling & rope = params.rope;
    header.set(arch + ".rope.freq_base", static_cast<float>(params.rope_base));
    header.set(arch + ".rope.dimension_count", static_cast<uint32_t>(params.head_dim));
    if (rope.kind != RopeKind::linear && rope.kind != RopeKind::yarn) {
        return; // llama3 is a tensor of factors
    }
    header.set(arch + ".rope.scaling.type", rope.kind == RopeKind::linear ? "linear" : "yarn");
    header.set(arch + ".rope.scaling.factor", static_cast<float>(rope.factor));
    if (rope.kind == RopeKind::linear) {
        return;
    }
    header.set(arch + ".rope.scaling.original_context_length", static_cast<uint32_t>(rope.n_ctx_original));
    if (rope.attention_factor) {
        // Readers scale by 0.1 ln(factor) + 1 already, the value Hugging Face takes when none is given.
        const double built_in = rope.factor > 1 ? 0.1 * std::log(rope.factor) + 1 : 1;
        header.set(arch + ".rope.scaling.attn_factor", static_cast<float>(*rope.attention_factor / built_in));
    }
    if (rope.beta_fast) {
        header.set(arch + ".rope.scaling.yarn_beta_fast", static_cast<float>(*rope.beta_fast));
    }
    if (rope.beta_slow) {
        header.set(arch + ".rope.scaling.yarn_beta_slow", static_cast<float>(*rope.beta_slow));
    }
}

void set_model(GgufWriter & header, const ArchMapping & mapping, const HfParams & params) {
    const std::string arch = mapping.arch;
    const auto size = [&](const char * key, int64_t value) { header.set(arch + key, static_cast<uint32_t>(value)); };
    size(".vocab_size", params.n_vocab);
    size(".context_length", params.n_ctx);
    size(".embedding_length", params.n_embd);
    size(".block_count", params.n_layer);
    size(".feed_forward_length", params.n_ff);
    size(".attention.head_count", params.n_head);
    size(".attention.head_count_kv", params.n_head_kv);
    size(".attention.key_length", params.head_dim);
    size(".attention.value_length", params.head_dim);
    header.set(arch + ".attention.layer_norm_rms_epsilon", static_cast<float>(params.norm_eps));
    set_rope(header, arch, params);
    if (mapping.diffusion) {
        header.set(arch + ".attention.causal", false);
        header.set("diffusion.shift_logits", mapping.shift);
    }
}

void set_tokenizer(GgufWriter & header, const Tokenizer & tokenizer) {
    const bool           spm = tokenizer.pre.kind == TokenizerKind::spm;
    std::vector<int32_t> types;
    types.reserve(tokenizer.types.size());
    for (const TokenType type : tokenizer.types) {
        types.push_back(static_cast<int32_t>(type));
    }
    header.set("tokenizer.ggml.model", spm ? "llama" : "gpt2");
    header.set("tokenizer.ggml.pre", tokenizer.pre.name);
    header.set("tokenizer.ggml.normalizer", tokenizer.pre.normalizer);
    header.set("tokenizer.ggml.tokens", tokenizer.tokens);
    header.set("tokenizer.ggml.token_type", types);
    if (spm) {
        header.set("tokenizer.ggml.scores", tokenizer.scores);
    } else {
        header.set("tokenizer.ggml.merges", tokenizer.merges);
    }
    for (const auto & [name, id] : tokenizer.special_ids) {
        header.set(concat("tokenizer.ggml.", name, "_token_id"), static_cast<uint32_t>(id));
    }
    header.set("tokenizer.ggml.add_bos_token", tokenizer.add_bos);
    header.set("tokenizer.ggml.add_eos_token", tokenizer.add_eos);
    header.set("tokenizer.ggml.add_space_prefix", tokenizer.pre.prefix_space);
    if (tokenizer.chat_template) {
        header.set("tokenizer.chat_template", *tokenizer.chat_template);
    }
    for (const auto & [name, body] : tokenizer.chat_templates_named) {
        header.set("tokenizer.chat_template." + name, body);
    }
}

uint64_t tensor_bytes(const PlannedTensor & tensor) {
    return static_cast<uint64_t>(tensor.n_rows) * ggml_row_size(tensor.type, tensor.n_cols);
}

uint64_t padding_after(uint64_t size) {
    return (GgufWriter::alignment - size % GgufWriter::alignment) % GgufWriter::alignment;
}

void report_health(const PlannedTensor & tensor, const TensorHealth & health, const LogCallback & log) {
    if (!log) {
        return;
    }
    if (health.n_not_finite > 0) {
        log(LogLevel::warn, concat("tensor ", printable(tensor.source->name), ": ", health.n_not_finite,
                                   " values are NaN or infinite"));
    }
    if (health.n_overflow > 0) {
        log(LogLevel::warn, concat("tensor ", printable(tensor.source->name), ": ", health.n_overflow,
                                   " values are too large for ", ggml_type_name(tensor.type), " and became infinite"));
    }
}

void write_tensors(PendingFile & file, const std::vector<PlannedTensor> & tensors, const Safetensors & source,
                   const ConvertOptions & options, uint64_t n_total) {
    const int n_threads =
        options.n_threads > 0 ? options.n_threads : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));

    uint64_t n_done = 0;
    for (const PlannedTensor & tensor : tensors) {
        const TensorHealth      health = stream_tensor(tensor, source, n_threads, [&](const void * data, size_t size) {
            file.write(data, size);
            n_done += size;
            if (options.progress && !options.progress(static_cast<float>(n_done) / static_cast<float>(n_total))) {
                fail_runtime(printable(options.output), ": cancelled");
            }
        });
        const std::vector<char> padding(padding_after(tensor_bytes(tensor)));
        file.write(padding.data(), padding.size());
        report_health(tensor, health, options.log);
        if (options.log) {
            options.log(LogLevel::debug,
                        concat(tensor.name, " ", ggml_type_name(tensor.type), " [", tensor.ne().front(),
                               tensor.n_dims == 1 ? "" : concat(", ", tensor.n_rows), "]"));
        }
    }
}

void convert_checkpoint(const ConvertOptions & options) {
    std::error_code error;
    if (!fs::is_directory(options.input, error)) {
        fail(printable(options.input), ": not a directory with a Hugging Face checkpoint");
    }
    const HfJson      config  = HfJson::load((fs::path(options.input) / "config.json").string());
    const ArchMapping mapping = find_mapping(config);
    if (mapping.check != nullptr) {
        mapping.check(config);
    }
    const HfParams    params = read_params(config);
    const Safetensors source = Safetensors::open_dir(options.input);

    // The plan proves the config's sizes by the tensors; only then may they size the vocabulary.
    const std::vector<PlannedTensor> tensors   = plan_tensors(mapping, params, source, options.outtype, options.log);
    const Tokenizer                  tokenizer = read_tokenizer(options.input, config, params.n_vocab, options.log);
    if (mapping.diffusion && tokenizer.special_ids.count("mask") == 0 && options.log) {
        options.log(LogLevel::warn, concat(options.input, ": a diffusion model without a mask token"));
    }

    GgufWriter header;
    set_general(header, mapping, options, tensors);
    set_model(header, mapping, params);
    set_tokenizer(header, tokenizer);
    for (const PlannedTensor & tensor : tensors) {
        header.add_tensor(tensor.name, tensor.type, tensor.ne());
    }

    uint64_t n_total = 0;
    for (const PlannedTensor & tensor : tensors) {
        n_total += tensor_bytes(tensor) + padding_after(tensor_bytes(tensor));
    }
    const std::vector<char> head = header.bytes();
    PendingFile             file(options.output, options.force);
    file.expect_size(head.size() + n_total);
    file.write(head.data(), head.size());
    write_tensors(file, tensors, source, options, n_total);
    file.commit();
}

} // namespace

OutType parse_outtype(const std::string & name) {
    const std::pair<const char *, OutType> known[] = {
        {"f32", OutType::f32}, {"f16", OutType::f16}, {"bf16", OutType::bf16}, {"q8_0", OutType::q8_0}};
    for (const auto & [text, type] : known) {
        if (name == text) {
            return type;
        }
    }
    fail("output type ", in_quotes(name), " is not known; known: f32, f16, bf16, q8_0");
}

void convert_hf(const ConvertOptions & options) {
    try {
        convert_checkpoint(options);
    } catch (const Error & e) {
        throw Error(printable(e.what()), e.kind()); // paths and names may hold anything
    } catch (const std::bad_alloc &) {
        fail_runtime(printable(options.input), ": out of memory while converting");
    } catch (const std::exception & e) {
        fail(printable(options.input), ": ", printable(e.what()));
    }
}

} // namespace buoy
