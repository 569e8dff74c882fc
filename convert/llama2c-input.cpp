#include "base/checked.h"
#include "buoy/message.h"
#include "input.h"
#include "size-label.h"

#include <array>
#include <filesystem>
#include <limits>

namespace buoy {

namespace {

namespace fs = std::filesystem;

constexpr uint32_t VERSIONED = 0x616b3432; // "ak42", the later formats

struct Sizes {
    int64_t n_embd    = 0;
    int64_t n_ff      = 0;
    int64_t n_layer   = 0;
    int64_t n_head    = 0;
    int64_t n_head_kv = 0;
    int64_t n_vocab   = 0;
    int64_t n_ctx     = 0;
    bool    tied      = true;

    int64_t head_dim() const { return n_embd / n_head; }
};

Sizes read_sizes(const MappedFile & file) {
    std::array<int32_t, 7> raw{};
    if (file.size() < sizeof(raw)) {
        fail(printable(file.path()), ": ", file.size(), " bytes are too few for a llama2.c model");
    }
    file.read(0, raw.data(), sizeof(raw));
    const uint32_t start = static_cast<uint32_t>(raw[0]) & 0xffff;
    if (start == 0x4b50 || start == 0x0280) { // torch.save's zip, or a bare pickle
        fail(printable(file.path()), ": pickled weights, which can run code when read; save the model as safetensors "
                                     "(save_pretrained(…, safe_serialization=True)) and convert its directory");
    }
    if (static_cast<uint32_t>(raw[0]) == VERSIONED) {
        fail(printable(file.path()),
             ": a later version of llama2.c's format; only the first (fp32, no version) can be read");
    }
    Sizes sizes   = {raw[0], raw[1], raw[2], raw[3], raw[4], raw[5], raw[6], raw[5] > 0};
    sizes.n_vocab = sizes.n_vocab < 0 ? -sizes.n_vocab : sizes.n_vocab; // negative: a head of its own
    for (const int64_t size :
         {sizes.n_embd, sizes.n_ff, sizes.n_layer, sizes.n_head, sizes.n_head_kv, sizes.n_vocab, sizes.n_ctx}) {
        if (size < 1 || size > 1 << 24) {
            fail(printable(file.path()), ": a size of ", size, " in the header, not a llama2.c model");
        }
    }
    if (sizes.n_embd % sizes.n_head != 0 || sizes.n_head % sizes.n_head_kv != 0 || sizes.head_dim() % 2 != 0 ||
        sizes.n_layer > 512) {
        fail(printable(file.path()), ": width ", sizes.n_embd, ", ", sizes.n_head, " heads and ", sizes.n_head_kv,
             " key/value heads do not fit together, not a llama2.c model");
    }
    return sizes;
}

// Hands out the file's matrices in their order.
class Cutter {
public:
    explicit Cutter(std::shared_ptr<const MappedFile> file) : file_(std::move(file)) {}

    PlannedTensor take(const std::string & name, int64_t n_rows, int64_t n_cols) {
        TensorSource source;
        source.name   = name;
        source.file   = file_;
        source.offset = at_;
        PlannedTensor tensor;
        tensor.name   = name;
        tensor.parts  = {source};
        tensor.n_dims = n_cols == 1 ? 1 : 2;
        tensor.n_rows = n_rows;
        tensor.n_cols = n_cols;
        skip(n_rows, n_cols);
        return tensor;
    }

    void skip(int64_t n_rows, int64_t n_cols) {
        const auto n = checked_mul(static_cast<uint64_t>(n_rows) * sizeof(float), static_cast<uint64_t>(n_cols));
        if (!n || *n > file_->size() - at_) {
            fail(printable(file_->path()), ": ends before the weights that its header names, not a llama2.c model");
        }
        at_ += *n;
    }

    void finish() const {
        if (at_ != file_->size()) {
            fail(printable(file_->path()), ": ", file_->size() - at_,
                 " bytes after the weights that its header names, not a llama2.c model");
        }
    }

private:
    std::shared_ptr<const MappedFile> file_;
    uint64_t                          at_ = 7 * sizeof(int32_t);
};

std::vector<PlannedTensor> plan(const std::shared_ptr<const MappedFile> & file, const Sizes & s) {
    std::vector<PlannedTensor> tensors;
    Cutter                     cutter(file);
    const auto                 layers = [&](const char * name, int64_t n_rows, int64_t n_cols) {
        for (int64_t layer = 0; layer < s.n_layer; ++layer) {
            tensors.push_back(cutter.take(concat("blk.", layer, ".", name, ".weight"), n_rows, n_cols));
        }
    };
    const int64_t n_kv = s.n_head_kv * s.head_dim();
    tensors.push_back(cutter.take("token_embd.weight", s.n_vocab, s.n_embd));
    layers("attn_norm", s.n_embd, 1);
    layers("attn_q", s.n_embd, s.n_embd); // its RoPE pairs neighbours, as ggml's does here
    layers("attn_k", n_kv, s.n_embd);
    layers("attn_v", n_kv, s.n_embd);
    layers("attn_output", s.n_embd, s.n_embd);
    layers("ffn_norm", s.n_embd, 1);
    layers("ffn_gate", s.n_ff, s.n_embd);
    layers("ffn_down", s.n_embd, s.n_ff);
    layers("ffn_up", s.n_ff, s.n_embd);
    tensors.push_back(cutter.take("output_norm.weight", s.n_embd, 1));
    cutter.skip(2 * s.n_ctx, s.head_dim() / 2); // tables of cosines and sines
    if (!s.tied) {
        tensors.push_back(cutter.take("output.weight", s.n_vocab, s.n_embd));
    }
    cutter.finish();
    return tensors;
}

// tokenizer.bin: the longest token's length, then score, length and bytes of each.
void set_tokenizer_bin(GgufWriter & header, const std::string & path, int64_t n_vocab) {
    constexpr int32_t        LENGTH_MAX = 16384;
    const MappedFile         file       = MappedFile::open(path);
    uint64_t                 at         = sizeof(int32_t);
    std::vector<std::string> tokens;
    std::vector<float>       scores;
    std::vector<int32_t>     types;
    for (int64_t i = 0; i < n_vocab; ++i) {
        float   score  = 0;
        int32_t length = 0;
        if (file.size() < at + 8) {
            fail(printable(path), ": ends after ", i, " tokens, the model has ", n_vocab);
        }
        file.read(at, &score, sizeof(score));
        file.read(at + 4, &length, sizeof(length));
        at += 8;
        if (length < 0 || length > LENGTH_MAX || static_cast<uint64_t>(length) > file.size() - at) {
            fail(printable(path), ": token ", i, " is ", length, " bytes long, expected at most ", LENGTH_MAX);
        }
        std::string text(static_cast<size_t>(length), '\0');
        file.read(at, text.data(), text.size());
        at += static_cast<uint64_t>(length);
        std::string marked;
        for (const char c : text) {
            marked += c == ' ' ? std::string("▁") : std::string(1, c);
        }
        const bool byte = i >= 3 && i < 259;
        tokens.push_back(i == 0 ? "<unk>" : i == 1 ? "<s>" : i == 2 ? "</s>" : marked);
        scores.push_back(score);
        types.push_back(i == 0 ? 2 : i < 3 ? 3 : byte ? 6 : 1);
        if (tokens.back().find('\0') != std::string::npos) {
            fail(printable(path), ": token ", i, " contains a NUL, which GGUF readers can't hold");
        }
    }
    header.set("tokenizer.ggml.model", "llama");
    header.set("tokenizer.ggml.pre", "default");
    header.set("tokenizer.ggml.tokens", tokens);
    header.set("tokenizer.ggml.scores", scores);
    header.set("tokenizer.ggml.token_type", types);
    header.set("tokenizer.ggml.unknown_token_id", uint32_t{0});
    header.set("tokenizer.ggml.bos_token_id", uint32_t{1});
    header.set("tokenizer.ggml.eos_token_id", uint32_t{2});
    header.set("tokenizer.ggml.add_bos_token", true);
    header.set("tokenizer.ggml.add_eos_token", false);
    header.set("tokenizer.ggml.add_space_prefix", true);
}

} // namespace

ConvertInput open_llama2c(const std::string & path, const QuantMix & mix) {
    const auto        file      = std::make_shared<const MappedFile>(MappedFile::open(path));
    const Sizes       sizes     = read_sizes(*file);
    const std::string tokenizer = (fs::path(path).parent_path() / "tokenizer.bin").string();
    ConvertInput      input;
    input.files      = {path, tokenizer};
    input.tensors    = plan(file, sizes);
    input.name       = printable(fs::path(path).stem().string());
    input.size_label = size_label(input.tensors);
    input.model      = {"llama", sizes.n_layer, sizes.n_head, sizes.n_head_kv, 0};

    GgufWriter & header = input.header;
    header.set("general.architecture", "llama");
    header.set("general.type", "model");
    header.set("general.name", input.name);
    header.set("general.size_label", input.size_label);
    header.set("general.file_type", mix.file_type);
    header.set("general.quantization_version", static_cast<uint32_t>(GGML_QNT_VERSION));
    for (const auto & [key, value] :
         {std::make_pair("llama.vocab_size", sizes.n_vocab), std::make_pair("llama.context_length", sizes.n_ctx),
          std::make_pair("llama.embedding_length", sizes.n_embd), std::make_pair("llama.block_count", sizes.n_layer),
          std::make_pair("llama.feed_forward_length", sizes.n_ff),
          std::make_pair("llama.attention.head_count", sizes.n_head),
          std::make_pair("llama.attention.head_count_kv", sizes.n_head_kv),
          std::make_pair("llama.rope.dimension_count", sizes.head_dim())}) {
        header.set(key, static_cast<uint32_t>(value));
    }
    header.set("llama.rope.freq_base", 10000.0F);
    header.set("llama.attention.layer_norm_rms_epsilon", 1e-5F);
    std::error_code error;
    if (!fs::exists(tokenizer, error)) {
        fail(printable(path), ": no tokenizer.bin beside it");
    }
    set_tokenizer_bin(header, tokenizer, sizes.n_vocab);
    return input;
}

} // namespace buoy
