// An architecture that is not ours, declared here: what the joints of a graph carry. LayerNorm with bias, GELU, soft-caps, a sliding
// window on every second layer, a norm after attention, K = V, RoPE and a scale per layer, an embedding scale, an extra input.
// Against a plain loop in double precision.

#include "buoy/generate.h"
#include "buoy/record.h"
#include "engine/ggml-model.h"
#include "io/gguf-file.h"
#include "io/gguf-writer.h"
#include "io/npz-reader.h"
#include "io/pending-file.h"
#include "support/oracle.h"
#include "support/paths.h"
#include "support/random-context.h"
#include "support/tap-log.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <random>

using namespace buoy;
using namespace buoy::test;

namespace {

constexpr int32_t V = 320, E = 32, L = 4, H = 4, Hkv = 2, D = 8, F = 48, mask_id = 260;
constexpr int32_t window = 6;
constexpr float   eps = 1e-5f, cap_scores = 5.0f, cap_logits = 12.0f, attn_scale = 0.4f, embed_scale = 3.0f;

bool  is_windowed(int32_t il) { return il % 2 == 1; }
float rope_base(int32_t il) { return 1000.0f * static_cast<float>(il + 1); }
int   rope_dims(int32_t il) { return il % 2 == 0 ? D : D / 2; }

// The architecture

void read(const GgufFile &, HParams & hp) {
    hp.logit_softcap = cap_logits;
    hp.embed_scale   = embed_scale;
    for (int32_t il = 0; il < hp.n_layer; il++) {
        LayerParams & layer  = hp.layer(il);
        layer.window         = is_windowed(il) ? window : 0;
        layer.softcap        = cap_scores;
        layer.scale          = attn_scale;
        layer.rope.freq_base = rope_base(il);
        layer.rope.n_dims    = rope_dims(il);
    }
}

void layer(WeightSource & source, const HParams & hp, int32_t il, LayerWeights & w) {
    const LayerParams & p = hp.layer(il);
    w.attn_norm           = source.norm(block_name("attn_norm", il), hp.n_embd, il);
    w.q                   = source.linear(block_name("attn_q", il), hp.n_embd, p.n_q(), il);
    w.k                   = source.linear(block_name("attn_k", il), hp.n_embd, p.n_kv(), il);
    w.o                   = source.linear(block_name("attn_output", il), p.n_q(), hp.n_embd, il);
    w.attn_post_norm      = source.norm(block_name("post_attention_norm", il), hp.n_embd, il);
    w.ffn_norm            = source.norm(block_name("ffn_norm", il), hp.n_embd, il);
    w.up                  = source.linear(block_name("ffn_up", il), hp.n_embd, hp.n_ff, il);
    w.down                = source.linear(block_name("ffn_down", il), hp.n_ff, hp.n_embd, il);
    w.out_scale =
        source.get({block_name("layer_output_scale.weight", il), {1}, WeightUse::multiply, Presence::required, il});
}

ggml_tensor * embed(Graph & g) {
    ggml_tensor * x = g.scale(g.embed_tokens(), g.hparams().embed_scale);
    return g.extra_input() != nullptr ? g.add(x, g.extra_input()) : x;
}

ggml_tensor * block(Graph & g, int32_t il, ggml_tensor * x) {
    const LayerWeights & w = g.layer(il);

    g.keys_values(il, x, [&](ggml_tensor * all) {
        ggml_tensor * k = g.heads(il, g.linear(w.k, g.layer_norm(all, w.attn_norm)));
        return KeysValues{g.rope(il, k), k}; // values are the keys before their rotation
    });
    return g.rows_needed(il, x, [&](ggml_tensor * rows) {
        ggml_tensor * q = g.heads(il, g.linear(w.q, g.layer_norm(rows, w.attn_norm)));
        ggml_tensor * a = g.linear(w.o, g.attention(il, g.rope(il, q)));
        a               = g.add(rows, g.rms_norm(a, w.attn_post_norm));
        ggml_tensor * f = g.linear(w.down, g.gelu(g.linear(w.up, g.layer_norm(a, w.ffn_norm))));
        return g.multiply(g.add(a, f), w.out_scale);
    });
}

ggml_tensor * head(Graph & g, ggml_tensor * x) {
    ggml_tensor * logits = g.linear(g.weights().output, g.layer_norm(x, g.weights().output_norm));
    return g.softcap(logits, g.hparams().logit_softcap);
}

const Arch foreign = {
    .model = {.name   = "foreign",
              .traits = {.rope = RopeKind::neox, .attention = AttentionKind::full, .shift = false, .layer_norm = true},
              .read   = read,
              .layer  = layer},
    .graph = {.embed = embed, .block = block, .head = head},
};

// Its file

using Tensors = std::map<std::string, std::vector<float>>;

struct Shape {
    std::string          name;
    std::vector<int64_t> ne;
};

std::vector<Shape> shapes() {
    std::vector<Shape> all = {{"token_embd.weight", {E, V}},
                              {"output_norm.weight", {E}},
                              {"output_norm.bias", {E}},
                              {"output.weight", {E, V}}};
    for (int32_t il = 0; il < L; il++) {
        const auto name = [il](const char * part) { return block_name(part, il); };
        all.insert(all.end(), {{name("attn_norm.weight"), {E}},
                               {name("attn_norm.bias"), {E}},
                               {name("attn_q.weight"), {E, H * D}},
                               {name("attn_k.weight"), {E, Hkv * D}},
                               {name("attn_output.weight"), {H * D, E}},
                               {name("post_attention_norm.weight"), {E}},
                               {name("ffn_norm.weight"), {E}},
                               {name("ffn_norm.bias"), {E}},
                               {name("ffn_up.weight"), {E, F}},
                               {name("ffn_up.bias"), {F}},
                               {name("ffn_down.weight"), {F, E}},
                               {name("layer_output_scale.weight"), {1}}});
    }
    return all;
}

struct File {
    std::string path;
    Tensors     tensors;
};

File make_file() {
    GgufWriter header;
    header.set("general.architecture", "foreign");
    header.set("foreign.context_length", uint32_t{256});
    header.set("foreign.embedding_length", uint32_t{E});
    header.set("foreign.block_count", uint32_t{L});
    header.set("foreign.feed_forward_length", uint32_t{F});
    header.set("foreign.attention.head_count", uint32_t{H});
    header.set("foreign.attention.head_count_kv", uint32_t{Hkv});
    header.set("foreign.attention.key_length", uint32_t{D});
    header.set("foreign.attention.layer_norm_epsilon", eps);
    header.set("tokenizer.ggml.mask_token_id", uint32_t{mask_id});

    File                            file;
    std::mt19937                    random(7);
    std::normal_distribution<float> normal;
    for (const Shape & shape : shapes()) {
        header.add_tensor(shape.name, GGML_TYPE_F32, shape.ne);
        const int64_t n      = shape.ne[0] * (shape.ne.size() > 1 ? shape.ne[1] : 1);
        const bool    matrix = shape.ne.size() > 1;
        const bool    centre = !matrix && shape.name.find(".weight") != std::string::npos;
        for (int64_t i = 0; i < n; i++) {
            const float deviation = matrix ? 1.5f / std::sqrt(static_cast<float>(shape.ne[0])) : 0.1f;
            file.tensors[shape.name].push_back((centre ? 1.0f : 0.0f) + deviation * normal(random));
        }
    }
    file.path = temp_dir() + "/foreign.gguf";
    PendingFile             out(file.path, false);
    const std::vector<char> bytes = header.bytes();
    out.write(bytes.data(), bytes.size());
    for (const Shape & shape : shapes()) {
        const std::vector<float> & values = file.tensors[shape.name];
        const size_t               size   = values.size() * sizeof(float);
        const std::string padding((GgufWriter::alignment - size % GgufWriter::alignment) % GgufWriter::alignment, '\0');
        out.write(values.data(), size);
        out.write(padding.data(), padding.size());
    }
    out.commit();
    return file;
}

// The plain loop

using Row  = std::vector<double>;
using Rows = std::vector<Row>;

struct Plain {
    const Tensors &                 tensors;
    std::vector<AttentionEdit>      edits   = {};
    std::vector<float>              extra   = {};
    std::vector<std::vector<float>> pattern = {}; // [L] of [H, T, T]

    const std::vector<float> & weight(int32_t il, const char * part) const { return tensors.at(block_name(part, il)); }

    static Row multiply(const std::vector<float> & w, const Row & x) {
        Row y(w.size() / x.size());
        for (size_t i = 0; i < y.size(); i++) {
            for (size_t j = 0; j < x.size(); j++) {
                y[i] += static_cast<double>(w[i * x.size() + j]) * x[j];
            }
        }
        return y;
    }

    static Row layer_norm(const Row & x, const std::vector<float> & w, const std::vector<float> & bias) {
        const auto n    = static_cast<double>(x.size());
        double     mean = 0.0, variance = 0.0;
        for (const double v : x) {
            mean += v / n;
        }
        for (const double v : x) {
            variance += (v - mean) * (v - mean) / n;
        }
        Row y(x.size());
        for (size_t i = 0; i < x.size(); i++) {
            y[i] = (x[i] - mean) / std::sqrt(variance + double(eps)) * double(w[i]) + double(bias[i]);
        }
        return y;
    }

    static Row rms_norm(const Row & x, const std::vector<float> & w) {
        double square = 0.0;
        for (const double v : x) {
            square += v * v / static_cast<double>(x.size());
        }
        Row y(x.size());
        for (size_t i = 0; i < x.size(); i++) {
            y[i] = x[i] / std::sqrt(square + double(eps)) * double(w[i]);
        }
        return y;
    }

    static void rotate(Row & heads, int32_t il, int32_t position) {
        const int half = rope_dims(il) / 2;
        for (size_t head = 0; head < heads.size() / D; head++) {
            for (int i = 0; i < half; i++) {
                const double angle = position * std::pow(double(rope_base(il)), -2.0 * i / rope_dims(il));
                double &     a     = heads[head * D + static_cast<size_t>(i)];
                double &     b     = heads[head * D + static_cast<size_t>(i + half)];
                const double x = a, y = b;
                a = x * std::cos(angle) - y * std::sin(angle);
                b = x * std::sin(angle) + y * std::cos(angle);
            }
        }
    }

    double bias_of(int32_t il, int32_t head, int32_t query, int32_t key) const {
        double bias = 0.0;
        for (const AttentionEdit & edit : edits) {
            const auto has = [](const std::vector<int32_t> & all, int32_t one) {
                return all.empty() || std::find(all.begin(), all.end(), one) != all.end();
            };
            if (edit.layer == il && has(edit.heads, head) && has(edit.queries, query) && has(edit.keys, key)) {
                bias += double(edit.bias);
            }
        }
        return bias;
    }

    Row attend(int32_t il, int32_t query, const Row & q, const Rows & keys, const Rows & values) {
        const size_t T = keys.size();
        Row          mixed(H * D);
        for (int32_t head = 0; head < H; head++) {
            const auto from = static_cast<size_t>(head / (H / Hkv) * D), at = static_cast<size_t>(head * D);
            Row        weights(T);
            double     sum = 0.0;
            for (size_t key = 0; key < T; key++) {
                double score = 0.0;
                for (size_t d = 0; d < D; d++) {
                    score += q[at + d] * keys[key][from + d];
                }
                score             = double(cap_scores) * std::tanh(score * double(attn_scale) / double(cap_scores));
                const bool hidden = is_windowed(il) && std::abs(query - static_cast<int32_t>(key)) >= window;
                weights[key] = hidden ? 0.0 : std::exp(score + bias_of(il, head, query, static_cast<int32_t>(key)));
                sum += weights[key];
            }
            for (size_t key = 0; key < T; key++) {
                weights[key] /= sum;
                pattern[static_cast<size_t>(il)][(static_cast<size_t>(head) * T + static_cast<size_t>(query)) * T +
                                                 key] = static_cast<float>(weights[key]);
                for (size_t d = 0; d < D; d++) {
                    mixed[at + d] += weights[key] * values[key][from + d];
                }
            }
        }
        return mixed;
    }

    static double gelu(double x) {
        return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
    }

    std::vector<float> logits(const std::vector<int32_t> & tokens) {
        const size_t T = tokens.size();
        Rows         x(T, Row(E));
        for (size_t t = 0; t < T; t++) {
            for (size_t i = 0; i < E; i++) {
                const size_t at = static_cast<size_t>(tokens[t]) * E + i;
                x[t][i]         = double(tensors.at("token_embd.weight")[at]) * double(embed_scale) +
                          (extra.empty() ? 0.0 : double(extra[t * E + i]));
            }
        }
        pattern.assign(L, std::vector<float>(H * T * T));
        for (int32_t il = 0; il < L; il++) {
            Rows keys, values, queries;
            for (size_t t = 0; t < T; t++) {
                const Row h = layer_norm(x[t], weight(il, "attn_norm.weight"), weight(il, "attn_norm.bias"));
                values.push_back(multiply(weight(il, "attn_k.weight"), h));
                keys.push_back(values.back());
                queries.push_back(multiply(weight(il, "attn_q.weight"), h));
                rotate(keys.back(), il, static_cast<int32_t>(t));
                rotate(queries.back(), il, static_cast<int32_t>(t));
            }
            for (size_t t = 0; t < T; t++) {
                const Row a = multiply(weight(il, "attn_output.weight"),
                                       attend(il, static_cast<int32_t>(t), queries[t], keys, values));
                const Row n = rms_norm(a, weight(il, "post_attention_norm.weight"));
                for (size_t i = 0; i < E; i++) {
                    x[t][i] += n[i];
                }
                Row f = multiply(weight(il, "ffn_up.weight"),
                                 layer_norm(x[t], weight(il, "ffn_norm.weight"), weight(il, "ffn_norm.bias")));
                for (size_t i = 0; i < F; i++) {
                    f[i] = gelu(f[i] + double(weight(il, "ffn_up.bias")[i]));
                }
                f = multiply(weight(il, "ffn_down.weight"), f);
                for (size_t i = 0; i < E; i++) {
                    x[t][i] = (x[t][i] + f[i]) * double(weight(il, "layer_output_scale.weight")[0]);
                }
            }
        }
        std::vector<float> out;
        for (const Row & row : x) {
            const Row n = layer_norm(row, tensors.at("output_norm.weight"), tensors.at("output_norm.bias"));
            for (const double v : multiply(tensors.at("output.weight"), n)) {
                out.push_back(static_cast<float>(double(cap_logits) * std::tanh(v / double(cap_logits))));
            }
        }
        return out;
    }
};

std::shared_ptr<const Model> load(const std::string & path) {
    return std::make_shared<const GgmlModel>(path, foreign, ModelParams(), ContextParams());
}

std::vector<TapPoint> patterns() {
    std::vector<TapPoint> points;
    for (int32_t il = 0; il < L; il++) {
        points.push_back({Tap::pattern, il});
    }
    return points;
}

void check_patterns(const TapLog & seen, const Plain & plain) {
    for (const TapPoint & point : patterns()) {
        CAPTURE(point.layer);
        CHECK(max_abs_diff(seen.at(tap_key(point)).data, plain.pattern[static_cast<size_t>(point.layer)]) <= 1e-5);
    }
}

constexpr double tolerance = 1e-9; // f32 against double

} // namespace

TEST_CASE("foreign architecture: logits and patterns, with and without a store") {
    const File file   = make_file();
    const auto model  = load(file.path);
    const auto tokens = random_tokens(23, 256);
    Plain      plain{file.tensors};
    const auto expected = plain.logits(tokens);
    for (const FlashAttention flash : {FlashAttention::off, FlashAttention::automatic}) {
        ContextParams params = exact_params();
        params.flash         = flash;
        const double limit   = flash == FlashAttention::off ? tolerance : 1e-5; // ggml's fused attention takes F16 keys
        const auto   context = model->make_context(params);
        CHECK(nmse(context->forward(whole_request(tokens)).logits, expected) <= limit);
        if (flash == FlashAttention::off) {
            check_patterns(observe(*context, whole_request(tokens), patterns()), plain);
        }

        // all of it stored, then a part computed again against the rest
        CHECK(nmse(context->forward(stored_part(tokens, 0, 23)).logits, expected) <= limit);
        const std::vector<float> part(expected.begin() + 8 * V, expected.begin() + 15 * V);
        CHECK(nmse(context->forward(stored_part(tokens, 8, 15)).logits, part) <= limit);
        if (flash == FlashAttention::off) {
            check_patterns(observe(*context, stored_part(tokens, 0, 23), patterns()), plain);
        }

        ForwardRequest few = whole_request(tokens);
        few.rows           = {3, 20};
        std::vector<float> rows(expected.begin() + 3 * V, expected.begin() + 4 * V);
        rows.insert(rows.end(), expected.begin() + 20 * V, expected.begin() + 21 * V);
        CHECK(nmse(context->forward(few).logits, rows) <= limit);
    }
}

TEST_CASE("foreign architecture: edits, an extra input, several sequences") {
    const File     file    = make_file();
    const auto     context = load(file.path)->make_context(exact_params());
    const auto     tokens  = random_tokens(23, 256);
    ForwardRequest request = whole_request(tokens);
    request.edits          = {{1, {1, 2}, {}, {4, 5}, -INFINITY}, {2, {}, {7, 8}, {0}, 3.0f}, {3, {}, {}, {9}, -2.0f}};
    Plain      edited{file.tensors, request.edits};
    const auto expected = edited.logits(tokens);
    CHECK(nmse(context->forward(request).logits, expected) <= tolerance);
    check_patterns(observe(*context, request, patterns()), edited);

    ForwardRequest more = whole_request(random_tokens(11, 256, 3));
    for (size_t i = 0; i < more.tokens.size() * E; i++) {
        more.extra.push_back(std::sin(static_cast<float>(i)));
    }
    Plain      extra{file.tensors, {}, more.extra};
    const auto with_extra = extra.logits(more.tokens);
    CHECK(nmse(context->forward(more).logits, with_extra) <= tolerance);

    // one of the two has nothing to add
    const auto & both = context->forward(std::vector<ForwardRequest>{request, more});
    CHECK(nmse(both[0].logits, expected) <= tolerance);
    CHECK(nmse(both[1].logits, with_extra) <= tolerance);
}

TEST_CASE("foreign architecture: a generation is recorded") {
    const File     file    = make_file();
    const auto     context = load(file.path)->make_context(exact_params());
    const Vocab    vocab   = Vocab::load(random_gguf({}));
    const auto     prompt  = random_tokens(9, 256);
    GenerateParams params;
    params.n_predict = 6;
    params.steps     = 3;
    RecordedRun run;
    run.prompt_tokens = prompt;
    run.generate      = params;
    RecordParams record;
    record.path   = temp_dir() + "/run.npz";
    record.reduce = TapReduce::none;
    record.type   = RecordType::f32;
    Recorder recorder(record, context->info(), vocab, run);
    recorder.attach(params);
    const Generation out = generate(*context, prompt, params);
    recorder.finish();
    CHECK(out.steps.size() == 3);

    std::vector<int32_t> sequence = prompt; // before the first step
    sequence.resize(15, mask_id);
    Plain plain{file.tensors};
    plain.logits(sequence);
    const NpzReader npz = NpzReader::open(record.path);
    for (int32_t il = 0; il < L; il++) {
        NpyHeader  header;
        const auto values = npz.read_floats(npz.get("attn/step_0000/layer_0" + std::to_string(il)), header);
        CHECK(max_abs_diff(values, plain.pattern[static_cast<size_t>(il)]) <= 1e-5);
    }
}
