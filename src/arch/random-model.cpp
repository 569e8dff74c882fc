#include "buoy/random-model.h"

#include "arch/arch.h"
#include "base/split-work.h"
#include "buoy/message.h"
#include "io/gguf-writer.h"
#include "io/pending-file.h"
#include "model/quant-mix.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <vector>

namespace buoy {

namespace {

struct Matrix {
    std::string          name;
    ggml_type            type;
    std::vector<int64_t> ne;
    float                mean;
    float                deviation;
};

// A small generator of our own, so that the same seed gives the same weights with every standard library (splitmix64).
class Random {
public:
    explicit Random(uint64_t seed) : state_(seed) {}

    void skip(int64_t n) { state_ += step * static_cast<uint64_t>(n); }

    // Sum of four uniforms, variance 1: close enough to a normal distribution, and fast.
    float next() {
        state_ += step;
        uint64_t z = state_;
        z          = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z          = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        z ^= z >> 31;
        const auto sum = static_cast<float>((z & 0xffff) + (z >> 16 & 0xffff) + (z >> 32 & 0xffff) + (z >> 48));
        return (sum / 65535.0f - 2.0f) * std::sqrt(3.0f);
    }

private:
    static constexpr uint64_t step = 0x9e3779b97f4a7c15ull;

    uint64_t state_;
};

std::string lower(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
    return text;
}

// One of ggml's, for every matrix; none: a mix.
std::optional<ggml_type> type_by_name(const std::string & name) {
    for (int i = 0; i < GGML_TYPE_COUNT; i++) {
        const auto type = static_cast<ggml_type>(i);
        if (ggml_type_size(type) > 0 && lower(name) == lower(ggml_type_name(type))) {
            return type;
        }
    }
    const std::vector<std::string> mixes = outtype_names();
    if (std::find(mixes.begin(), mixes.end(), lower(name)) == mixes.end()) {
        fail("unknown tensor type ", in_quotes(name),
             ", expected one of ggml's, such as f32, f16, q8_0, q4_0, q4_K, or a mix: q3_k_m, q4_k_m, q5_k_m");
    }
    return std::nullopt;
}

// Dimensions of a head that are rotated.
int32_t rotated(const RandomModel & m, const ArchTraits & traits) {
    return static_cast<int32_t>(static_cast<float>(m.head_dim) * traits.usual_rotated_share);
}

// Of a model with windows: every sixth layer and the last see everything, with larger heads and fewer of keys; the others see this far.
bool    is_windowed(const RandomModel & m, int32_t il) { return (il + 1) % 6 != 0 && il + 1 < m.n_layer; }
int32_t window_of(const RandomModel & m) { return std::clamp(m.n_ctx / 32, 4, 1024); }
int32_t wide_head_dim(const RandomModel & m) { return 2 * m.head_dim; }
int32_t wide_head_kv(const RandomModel & m) { return std::max(m.n_head_kv / 4, 1); }

void set_windows(const RandomModel & m, HParams & hp) {
    for (int32_t il = 0; il < m.n_layer; il++) {
        LayerParams & layer = hp.layer(il);
        if (is_windowed(m, il)) {
            layer.window = window_of(m);
        } else {
            layer.n_head_kv   = wide_head_kv(m);
            layer.head_dim    = wide_head_dim(m);
            layer.rope.n_dims = layer.head_dim;
        }
    }
}

// The numbers that the file's keys will say.
HParams hparams_of(const RandomModel & m, const ArchTraits & traits) {
    HParams hp;
    hp.n_vocab = m.n_vocab;
    hp.n_embd  = m.n_embd;
    hp.n_layer = m.n_layer;
    hp.n_ff    = m.n_ff;
    LayerParams layer;
    layer.n_head      = m.n_head;
    layer.n_head_kv   = m.n_head_kv;
    layer.head_dim    = m.head_dim;
    layer.rope.n_dims = rotated(m, traits);
    hp.layers.assign(static_cast<size_t>(m.n_layer), layer);
    if (traits.windows) {
        set_windows(m, hp);
    }
    if (traits.experts) {
        hp.experts.n_expert    = m.n_expert;
        hp.experts.n_used      = m.n_used;
        hp.experts.n_ff        = m.n_ff_expert;
        hp.experts.n_ff_shared = m.n_ff_expert * traits.usual_shared;
        hp.experts.n_dense     = traits.usual_dense_layers;
    }
    return hp;
}

// What an architecture declares, in its order.
class WeightPlan : public WeightSource {
public:
    explicit WeightPlan(ggml_type type) : type_(type) {}

    ggml_tensor * get(const WeightSpec & spec) override {
        if (spec.presence != Presence::optional && !has(spec.name)) {
            add(spec);
        }
        return nullptr;
    }

    bool has(const std::string &, Presence presence) const override { return presence == Presence::usual; }

    Linear part(const std::string & base, int64_t n_in, int64_t n_rows, const Part &, int32_t layer) override {
        get({base + ".weight", {n_in, n_rows}, WeightUse::matmul, Presence::required, layer});
        return {};
    }

    const std::vector<Matrix> & matrices() const { return all_; }

private:
    bool has(const std::string & name) const {
        return std::any_of(all_.begin(), all_.end(), [&](const Matrix & matrix) { return matrix.name == name; });
    }

    void add(const WeightSpec & spec) {
        const float deviation = 1.0f / std::sqrt(static_cast<float>(spec.shape[0]));
        const bool  is_router = spec.name.find("ffn_gate_inp") != std::string::npos; // F32, as converters write it
        if (spec.use == WeightUse::multiply || spec.use == WeightUse::add) {
            all_.push_back({spec.name, GGML_TYPE_F32, spec.shape, spec.use == WeightUse::multiply ? 1.0f : 0.0f, 0.1f});
            return;
        }
        if (spec.use == WeightUse::rope) { // divisors of frequencies
            all_.push_back({spec.name, GGML_TYPE_F32, spec.shape, 1.0f, 0.0f});
            return;
        }
        // rows that don't fill a quantisation block stay in f16, as converters do it
        const ggml_type fitting = spec.shape[0] % ggml_blck_size(type_) == 0 ? type_ : GGML_TYPE_F16;
        all_.push_back({spec.name, is_router ? GGML_TYPE_F32 : fitting, spec.shape, 0.0f, deviation});
    }

    ggml_type           type_;
    std::vector<Matrix> all_;
};

// The types that the converter chooses.
void mix_types(std::vector<Matrix> & matrices, const RandomModel & m, const ArchTraits & traits) {
    std::vector<MixTensor> tensors;
    for (const Matrix & matrix : matrices) {
        tensors.push_back({matrix.name, static_cast<int>(matrix.ne.size()), matrix.ne[0], matrix.type});
    }
    choose_types(tensors, mix_of(parse_outtype(m.type)),
                 {m.arch, m.n_layer, m.n_head, m.n_head_kv, traits.experts ? m.n_expert : 0});
    for (size_t i = 0; i < tensors.size(); i++) {
        matrices[i].type = tensors[i].type;
    }
}

std::vector<Matrix> plan(const RandomModel & m, const ModelRecipe & recipe) {
    const HParams hp   = hparams_of(m, recipe.traits);
    const auto    type = type_by_name(m.type);
    WeightPlan    planned(type.value_or(GGML_TYPE_F32));
    Weights       weights;
    LayerWeights  layer;
    load_common(planned, hp, m.tied, weights);
    for (int32_t il = 0; il < hp.n_layer; il++) {
        recipe.layer(planned, hp, il, layer);
    }
    if (recipe.others != nullptr) {
        recipe.others(planned, hp, weights);
    }
    std::vector<Matrix> matrices = planned.matrices();
    if (!type) {
        mix_types(matrices, m, recipe.traits);
    }
    return matrices;
}

// GPT-2's alphabet for single bytes: printable ones stand for themselves, the others for characters from U+0100 on.
std::string byte_token(int byte, int & n_moved) {
    const bool printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    const int  code      = printable ? byte : 0x100 + n_moved++;
    if (code < 0x80) {
        return {static_cast<char>(code)};
    }
    return {static_cast<char>(0xc0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3f))};
}

void set_tokenizer(GgufWriter & header, const RandomModel & m, bool diffusion) {
    constexpr int32_t        normal = 1, control = 3;
    std::vector<std::string> tokens;
    std::vector<int32_t>     types;
    int                      n_moved = 0;
    for (int byte = 0; byte < 256; byte++) {
        tokens.push_back(byte_token(byte, n_moved));
        types.push_back(normal);
    }
    tokens.insert(tokens.end(), {"th", "he", "<|bos|>", "<|eos|>", "<|mask|>"});
    types.insert(types.end(), {normal, normal, control, control, control});
    for (int32_t id = static_cast<int32_t>(tokens.size()); id < m.n_vocab; id++) {
        tokens.push_back("<w" + std::to_string(id) + ">");
        types.push_back(normal);
    }
    header.set("tokenizer.ggml.model", "gpt2");
    header.set("tokenizer.ggml.pre", "gpt-2");
    header.set("tokenizer.ggml.tokens", tokens);
    header.set("tokenizer.ggml.token_type", types);
    header.set("tokenizer.ggml.merges", std::vector<std::string>{"t h", "h e"});
    header.set("tokenizer.ggml.bos_token_id", uint32_t{258});
    header.set("tokenizer.ggml.eos_token_id", uint32_t{259});
    header.set("tokenizer.ggml.add_bos_token", false);
    if (diffusion) {
        header.set("tokenizer.ggml.mask_token_id", uint32_t{260});
    }
    if (m.chat) {
        header.set("tokenizer.chat_template", "{{ messages[-1]['content'] }}");
    }
}

void set_window_keys(GgufWriter & header, const RandomModel & m) {
    std::vector<bool>    pattern;
    std::vector<int32_t> n_head_kv;
    for (int32_t il = 0; il < m.n_layer; il++) {
        pattern.push_back(is_windowed(m, il));
        n_head_kv.push_back(is_windowed(m, il) ? m.n_head_kv : wide_head_kv(m));
    }
    const auto u32 = [](int32_t value) { return static_cast<uint32_t>(value); };
    header.set(m.arch + ".attention.sliding_window", u32(window_of(m)));
    header.set(m.arch + ".attention.sliding_window_pattern", pattern);
    header.set(m.arch + ".attention.head_count_kv", n_head_kv);
    header.set(m.arch + ".attention.key_length", u32(wide_head_dim(m)));
    header.set(m.arch + ".attention.value_length", u32(wide_head_dim(m)));
    header.set(m.arch + ".attention.key_length_swa", u32(m.head_dim));
    header.set(m.arch + ".attention.value_length_swa", u32(m.head_dim));
    header.set(m.arch + ".rope.dimension_count", u32(wide_head_dim(m)));
    header.set(m.arch + ".rope.dimension_count_swa", u32(m.head_dim));
    header.set(m.arch + ".rope.freq_base_swa", 10000.0f);
    header.set(m.arch + ".final_logit_softcapping", 30.0f);
}

GgufWriter make_header(const RandomModel & m, const ArchTraits & traits, const std::vector<Matrix> & matrices) {
    const auto u32       = [](int32_t value) { return static_cast<uint32_t>(value); };
    const bool diffusion = traits.attention != AttentionKind::causal || m.block_length > 0;

    GgufWriter header;
    header.set("general.architecture", m.arch);
    header.set("general.name", "random " + m.arch);
    if (!type_by_name(m.type)) {
        header.set("general.file_type", mix_of(parse_outtype(m.type)).file_type);
    }
    header.set(m.arch + ".context_length", u32(m.n_ctx));
    header.set(m.arch + ".embedding_length", u32(m.n_embd));
    header.set(m.arch + ".block_count", u32(m.n_layer));
    header.set(m.arch + ".feed_forward_length", u32(m.n_ff));
    header.set(m.arch + ".attention.head_count", u32(m.n_head));
    if (traits.windows) {
        set_window_keys(header, m);
    } else {
        header.set(m.arch + ".attention.head_count_kv", u32(m.n_head_kv));
        header.set(m.arch + ".attention.key_length", u32(m.head_dim));
        header.set(m.arch + ".attention.value_length", u32(m.head_dim));
    }
    header.set(m.arch + ".attention.layer_norm_rms_epsilon", 1e-5f);
    header.set(m.arch + ".rope.freq_base", 10000.0f);
    header.set(m.arch + ".vocab_size", u32(m.n_vocab));
    if (diffusion) {
        header.set(m.arch + ".attention.causal", false);
        header.set("diffusion.shift_logits", traits.attention != AttentionKind::causal && traits.shift);
    }
    if (traits.experts) {
        header.set(m.arch + ".expert_count", u32(m.n_expert));
        header.set(m.arch + ".expert_used_count", u32(m.n_used));
        header.set(m.arch + ".expert_feed_forward_length", u32(m.n_ff_expert));
    }
    if (traits.usual_dense_layers > 0) {
        header.set(m.arch + ".leading_dense_block_count", u32(traits.usual_dense_layers));
    }
    if (traits.usual_shared > 0) {
        header.set(m.arch + ".expert_shared_count", u32(traits.usual_shared));
    }
    if (traits.usual_expert_scale != 1.0f) {
        header.set(m.arch + ".expert_weights_scale", traits.usual_expert_scale);
    }
    if (traits.usual_rotated_share != 1.0f) {
        header.set(m.arch + ".rope.dimension_count", u32(rotated(m, traits)));
    }
    if (m.n_group > 1) {
        header.set(m.arch + ".expert_group_count", u32(m.n_group));
        header.set(m.arch + ".expert_group_used_count", u32(m.n_group / 2));
    }
    if (!m.rope_scaling.empty()) {
        header.set(m.arch + ".rope.scaling.type", m.rope_scaling);
        header.set(m.arch + ".rope.scaling.factor", m.rope_factor);
        header.set(m.arch + ".rope.scaling.original_context_length", u32(m.n_ctx / 4));
    }
    if (traits.usual_query_beta > 0.0f) {
        header.set(m.arch + ".attention.temperature_scale", traits.usual_query_beta);
        header.set(m.arch + ".attention.temperature_length", u32(std::max(m.n_ctx / 4, 1)));
    }
    if (traits.canvases) {
        header.set("diffusion.canvas_length", u32(m.block_length > 0 ? m.block_length : 16));
    } else if (m.block_length > 0) {
        header.set(traits.two_modes ? "diffusion.recommended_block_length" : "diffusion.block_length",
                   u32(m.block_length));
    }
    set_tokenizer(header, m, diffusion);
    for (const Matrix & matrix : matrices) {
        header.add_tensor(matrix.name, matrix.type, matrix.ne);
    }
    return header;
}

// Rows of a matrix, from the state of the first one's first value on.
void make_rows(const Matrix & matrix, Random random, int64_t first, int64_t last, uint8_t * to) {
    const int64_t      n_cols   = matrix.ne[0];
    const size_t       row_size = ggml_row_size(matrix.type, n_cols);
    std::vector<float> row(static_cast<size_t>(n_cols));
    random.skip(first * n_cols);
    for (int64_t i = first; i < last; i++) {
        for (float & value : row) {
            value = matrix.mean + matrix.deviation * random.next();
        }
        ggml_quantize_chunk(matrix.type, row.data(), to + row_size * static_cast<size_t>(i), 0, 1, n_cols, nullptr);
    }
}

void write_matrix(PendingFile & file, const Matrix & matrix, Random & random) {
    const int64_t n_cols   = matrix.ne[0];
    const int64_t n_rows   = (matrix.ne.size() > 1 ? matrix.ne[1] : 1) * (matrix.ne.size() > 2 ? matrix.ne[2] : 1);
    const int64_t n_some   = std::clamp<int64_t>((int64_t{1} << 24) / n_cols, 1, n_rows); // are in memory at a time
    const size_t  row_size = ggml_row_size(matrix.type, n_cols);
    std::vector<uint8_t> packed;
    for (int64_t at = 0; at < n_rows; at += n_some) {
        const int64_t n = std::min(n_some, n_rows - at);
        packed.resize(row_size * static_cast<size_t>(n));
        const int64_t n_threads = std::clamp<int64_t>(n * n_cols >> 16, 1, std::min<int64_t>(n, core_count()));
        split_work(n, static_cast<int>(n_threads),
                   [&](int, int64_t first, int64_t last) { make_rows(matrix, random, first, last, packed.data()); });
        random.skip(n * n_cols);
        file.write(packed.data(), packed.size());
    }
    const uint64_t    size = row_size * static_cast<uint64_t>(n_rows);
    const std::string padding((GgufWriter::alignment - size % GgufWriter::alignment) % GgufWriter::alignment, '\0');
    file.write(padding.data(), padding.size());
}

} // namespace

RandomModel parse_random_model(const std::string & spec) {
    RandomModel m;
    const auto  colon                           = spec.find(':');
    m.arch                                      = spec.substr(0, colon);
    m.n_embd                                    = 0;
    int32_t                                seed = 1, tied = 0, chat = 0;
    const std::map<std::string, int32_t *> numbers = {
        {"E", &m.n_embd},       {"L", &m.n_layer}, {"H", &m.n_head},       {"HKV", &m.n_head_kv},
        {"D", &m.head_dim},     {"FF", &m.n_ff},   {"V", &m.n_vocab},      {"C", &m.n_ctx},
        {"B", &m.block_length}, {"SEED", &seed},   {"TIED", &tied},        {"CHAT", &chat},
        {"X", &m.n_expert},     {"U", &m.n_used},  {"FX", &m.n_ff_expert}, {"G", &m.n_group},
    };
    std::string rest = colon == std::string::npos ? "" : spec.substr(colon + 1);
    while (!rest.empty()) {
        const auto        comma = rest.find(',');
        const std::string part  = rest.substr(0, comma);
        rest                    = comma == std::string::npos ? "" : rest.substr(comma + 1);
        const auto        equal = part.find('=');
        const std::string key   = part.substr(0, equal);
        const std::string value = equal == std::string::npos ? "" : part.substr(equal + 1);
        if (key == "TYPE") {
            m.type = value;
            continue;
        }
        const auto number = numbers.find(key);
        if (number == numbers.end()) {
            fail("model ", in_quotes(spec), ": unknown part ", in_quotes(part),
                 "; the parts are E L H HKV D FF V C B X U FX G SEED TYPE TIED CHAT");
        }
        const auto result = std::from_chars(value.data(), value.data() + value.size(), *number->second);
        if (result.ec != std::errc() || result.ptr != value.data() + value.size() || *number->second < 0) {
            fail("model ", in_quotes(spec), ": ", in_quotes(part), " is not a number");
        }
    }
    m.seed   = static_cast<uint64_t>(seed);
    m.tied   = tied != 0;
    m.chat   = chat != 0;
    m.n_embd = m.n_embd > 0 ? m.n_embd : 64;
    return m;
}

void write_random_model(const RandomModel & model, const std::string & path, bool force) {
    RandomModel m = model;
    if (find_arch(m.arch) == nullptr) {
        std::string known;
        for (const std::string & name : arch_names()) {
            known += (known.empty() ? "" : ", ") + name;
        }
        fail("unknown architecture ", in_quotes(m.arch), "; choose one of ", known);
    }
    if (m.n_vocab < 261 || m.n_layer < 1 || m.n_head < 1 || m.n_embd < 2) {
        fail("a random model needs V >= 261, L >= 1, H >= 1 and E >= 2");
    }
    if (m.n_expert < 1 || m.n_used < 1 || m.n_used > m.n_expert) {
        fail("a mixture of experts needs X >= U >= 1, found X=", m.n_expert, " and U=", m.n_used);
    }
    m.n_ff_expert = m.n_ff_expert > 0 ? m.n_ff_expert : std::max(1, m.n_embd / 2);
    m.n_head_kv   = m.n_head_kv > 0 ? m.n_head_kv : m.n_head;
    m.head_dim    = m.head_dim > 0 ? m.head_dim : m.n_embd / m.n_head;
    m.n_ff        = m.n_ff > 0 ? m.n_ff : 3 * m.n_embd;

    const ModelRecipe &       recipe   = find_arch(m.arch)->model;
    const std::vector<Matrix> matrices = plan(m, recipe);
    const GgufWriter          header   = make_header(m, recipe.traits, matrices);
    const std::vector<char>   bytes    = header.bytes();
    PendingFile               file(path, force);
    Random                    random(m.seed);
    file.write(bytes.data(), bytes.size());
    for (const Matrix & matrix : matrices) {
        write_matrix(file, matrix, random);
    }
    file.commit();
}

} // namespace buoy
