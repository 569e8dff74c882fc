#include "model/quant-mix.h"

#include "buoy/message.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <map>

namespace buoy {

namespace {

// In the order of OutType.
constexpr QuantMix MIXES[] = {
    {OutType::f32, "f32", GGML_TYPE_F32, 0},         {OutType::f16, "f16", GGML_TYPE_F16, 1},
    {OutType::bf16, "bf16", GGML_TYPE_BF16, 32},     {OutType::q8_0, "q8_0", GGML_TYPE_Q8_0, 7},
    {OutType::q6_k, "q6_k", GGML_TYPE_Q6_K, 18},     {OutType::q5_k_m, "q5_k_m", GGML_TYPE_Q5_K, 17},
    {OutType::q4_k_m, "q4_k_m", GGML_TYPE_Q4_K, 15}, {OutType::iq4_xs, "iq4_xs", GGML_TYPE_IQ4_XS, 30},
    {OutType::q4_0, "q4_0", GGML_TYPE_Q4_0, 2},      {OutType::q3_k_m, "q3_k_m", GGML_TYPE_Q3_K, 12},
};

enum class Role { embedding, output, attn_v, attn_qkv, attn_k, attn_output, ffn_down, other };

bool contains(const std::string & text, const char * part) { return text.find(part) != std::string::npos; }

Role role_of(const std::string & name) {
    if (name == "output.weight") {
        return Role::output;
    }
    if (name == "token_embd.weight") {
        return Role::embedding;
    }
    static const std::pair<const char *, Role> parts[] = {
        {"attn_qkv.weight", Role::attn_qkv},       {"attn_v.weight", Role::attn_v}, {"attn_k.weight", Role::attn_k},
        {"attn_output.weight", Role::attn_output}, {"ffn_down", Role::ffn_down},
    };
    for (const auto & [part, role] : parts) {
        if (contains(name, part)) {
            return role;
        }
    }
    return Role::other;
}

int64_t layer_of(const std::string & name) {
    int layer = -1;
    return std::sscanf(name.c_str(), "blk.%d.", &layer) == 1 ? layer : -1;
}

// Matrices only; a router's scores are compared with each other, so it stays exact.
bool may_be_quantised(const MixTensor & tensor) {
    const std::string & name   = tensor.name;
    const std::string   suffix = "weight";
    return tensor.n_dims >= 2 && name.size() >= suffix.size() &&
           name.compare(name.size() - suffix.size(), suffix.size(), suffix) == 0 && !contains(name, "_norm.weight") &&
           !contains(name, "ffn_gate_inp.weight");
}

// The first and last eighth of the layers, and every third between.
bool is_sensitive(int64_t i, int64_t n) { return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2; }

// For rows that do not fill the blocks of the wanted type.
ggml_type smaller_blocks(ggml_type type, int64_t n_cols) {
    if (n_cols % ggml_blck_size(type) == 0) {
        return type;
    }
    ggml_type other = type;
    switch (type) {
        case GGML_TYPE_IQ4_XS:
        case GGML_TYPE_IQ3_S: other = GGML_TYPE_IQ4_NL; break;
        case GGML_TYPE_Q2_K:
        case GGML_TYPE_Q3_K: other = GGML_TYPE_Q4_0; break;
        case GGML_TYPE_Q4_K: other = GGML_TYPE_Q5_0; break;
        case GGML_TYPE_Q5_K: other = GGML_TYPE_Q5_1; break;
        case GGML_TYPE_Q6_K: other = GGML_TYPE_Q8_0; break;
        default: break;
    }
    return n_cols % ggml_blck_size(other) == 0 ? other : GGML_TYPE_F16;
}

class Chooser {
public:
    Chooser(const QuantMix & mix, const MixModel & model, bool tied, int64_t n_attn_v, bool has_imatrix)
        : mix_(mix), model_(model), tied_(tied), n_attn_v_(n_attn_v), has_imatrix_(has_imatrix) {}

    // Call it for the tensors in the order of their layers: two of the rules count.
    ggml_type choose(const MixTensor & tensor) {
        const Role role = role_of(tensor.name);
        if (role == Role::output || (tied_ && role == Role::embedding)) {
            const bool fits = tensor.n_cols % ggml_blck_size(mix_.type) == 0;
            return fits && mix_.type != GGML_TYPE_Q8_0 ? GGML_TYPE_Q6_K : GGML_TYPE_Q8_0;
        }
        switch (role) {
            case Role::attn_qkv:
            case Role::attn_v: return attn_v(i_attn_v_++);
            case Role::attn_k: return model_.n_expert == 8 ? GGML_TYPE_Q8_0 : mix_.type;
            case Role::attn_output: return attn_output();
            case Role::ffn_down: {
                const int64_t i = model_.n_expert > 1 ? layer_of(tensor.name) : i_ffn_down_;
                ++i_ffn_down_;
                return ffn_down(i);
            }
            default: return mix_.type;
        }
    }

private:
    bool is(OutType outtype) const { return mix_.outtype == outtype; }

    ggml_type attn_v(int64_t i) const {
        if (model_.n_expert == 8) {
            return GGML_TYPE_Q8_0;
        }
        ggml_type type = mix_.type;
        if (is(OutType::q3_k_m)) {
            type = i < 2 ? GGML_TYPE_Q5_K : GGML_TYPE_Q4_K;
        } else if (is(OutType::iq4_xs) && model_.n_head >= 4 * model_.n_head_kv) {
            type = GGML_TYPE_Q5_K;
        } else if ((is(OutType::q4_k_m) || is(OutType::q5_k_m)) && is_sensitive(i, n_attn_v_)) {
            type = GGML_TYPE_Q6_K;
        }
        // 70B models share each v among 8 heads
        const bool large = model_.n_layer == 80 &&
                           (model_.arch == "qwen2" || (model_.arch == "llama" && model_.n_head != model_.n_head_kv));
        return large && (type == GGML_TYPE_Q3_K || type == GGML_TYPE_Q4_K) ? GGML_TYPE_Q5_K : type;
    }

    ggml_type attn_output() const {
        if (model_.n_expert == 8) {
            return is(OutType::q3_k_m) || is(OutType::q4_k_m) || is(OutType::iq4_xs) ? GGML_TYPE_Q5_K : mix_.type;
        }
        return is(OutType::q3_k_m) ? GGML_TYPE_Q4_K : mix_.type;
    }

    ggml_type ffn_down(int64_t i) const {
        const int64_t n = model_.n_layer;
        if (is(OutType::q3_k_m)) {
            return i < n / 16 ? GGML_TYPE_Q5_K : GGML_TYPE_Q4_K;
        }
        if (is(OutType::q4_k_m) || is(OutType::q5_k_m)) {
            return is_sensitive(i, n) ? GGML_TYPE_Q6_K : mix_.type;
        }
        if (is(OutType::iq4_xs) && i < n / 8 && !has_imatrix_) {
            return GGML_TYPE_Q5_K;
        }
        return is(OutType::q4_0) && i < n / 8 && has_imatrix_ ? GGML_TYPE_Q4_1 : mix_.type;
    }

    const QuantMix & mix_;
    const MixModel & model_;
    bool             tied_;
    int64_t          n_attn_v_;
    bool             has_imatrix_;
    int64_t          i_attn_v_   = 0;
    int64_t          i_ffn_down_ = 0;
};

std::string lower(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
    return text;
}

// Types that need no importance matrix to be of any use.
constexpr ggml_type TENSOR_TYPES[] = {
    GGML_TYPE_F32,    GGML_TYPE_F16,  GGML_TYPE_BF16,  GGML_TYPE_Q8_0, GGML_TYPE_Q6_K, GGML_TYPE_Q5_K,
    GGML_TYPE_Q5_1,   GGML_TYPE_Q5_0, GGML_TYPE_Q4_K,  GGML_TYPE_Q4_1, GGML_TYPE_Q4_0, GGML_TYPE_IQ4_NL,
    GGML_TYPE_IQ4_XS, GGML_TYPE_Q3_K, GGML_TYPE_IQ3_S, GGML_TYPE_Q2_K,
};

ggml_type parse_type(const std::string & text, const std::string & rule) {
    std::string known;
    for (const ggml_type type : TENSOR_TYPES) {
        const std::string name = lower(ggml_type_name(type));
        if (name == lower(text)) {
            return type;
        }
        known += concat(known.empty() ? "" : ", ", name);
    }
    fail("`tensor_types` ", in_quotes(rule), ": type ", in_quotes(text), " is not known; known: ", known);
}

// Tensors by the type they were to have and the one they got because of their width.
using Fallbacks = std::map<std::pair<ggml_type, ggml_type>, std::vector<std::string>>;

void report(const Fallbacks & fallbacks, const LogCallback & log) {
    for (const auto & [types, names] : fallbacks) {
        if (log) {
            log(LogLevel::warn,
                concat(names.size(), " tensors have rows that do not fill blocks of ", ggml_blck_size(types.first),
                       ": ", ggml_type_name(types.second), " instead of ", ggml_type_name(types.first), " for ",
                       printable(names.front()), names.size() > 1 ? " and others" : ""));
        }
    }
}

} // namespace

std::string QuantMix::label() const {
    std::string out = name;
    std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::toupper(c); });
    return out;
}

std::vector<std::string> outtype_names() {
    std::vector<std::string> names;
    for (const QuantMix & mix : MIXES) {
        names.emplace_back(mix.name);
    }
    return names;
}

const QuantMix & mix_of(OutType outtype) { return MIXES[static_cast<size_t>(outtype)]; }

OutType parse_outtype(const std::string & name) {
    std::string known;
    for (const QuantMix & mix : MIXES) {
        if (lower(name) == mix.name) {
            return mix.outtype;
        }
        known += concat(known.empty() ? "" : ", ", mix.name);
    }
    fail("`outtype`: ", in_quotes(name), " is not one of ", known);
}

TensorTypeRule parse_tensor_type(const std::string & text) {
    const size_t split = text.rfind('=');
    if (split == std::string::npos || split == 0) {
        fail("`tensor_types` ", in_quotes(text), ": expected REGEX=TYPE");
    }
    try {
        return {text, std::regex(text.substr(0, split)), parse_type(text.substr(split + 1), text)};
    } catch (const std::regex_error & e) {
        fail("`tensor_types` ", in_quotes(text), ": not a regular expression: ", e.what());
    }
}

void choose_types(std::span<MixTensor> tensors, const QuantMix & mix, const MixModel & model, bool has_imatrix,
                  const std::vector<TensorTypeRule> & rules, const LogCallback & log) {
    bool                     tied     = true;
    int64_t                  n_attn_v = 0;
    std::vector<MixTensor *> in_order;
    for (MixTensor & tensor : tensors) {
        const Role role = role_of(tensor.name);
        tied            = tied && role != Role::output;
        n_attn_v += role == Role::attn_v || role == Role::attn_qkv ? 1 : 0;
        in_order.push_back(&tensor);
    }
    std::stable_sort(in_order.begin(), in_order.end(), [](const MixTensor * a, const MixTensor * b) {
        const int64_t layer_a = layer_of(a->name);
        const int64_t layer_b = layer_of(b->name);
        return layer_a != layer_b ? layer_a < layer_b : a->name < b->name;
    });

    Fallbacks         fallbacks;
    std::vector<bool> used(rules.size());
    Chooser           chooser(mix, model, tied, n_attn_v, has_imatrix);
    for (MixTensor * tensor : in_order) {
        if (!may_be_quantised(*tensor)) {
            continue;
        }
        const auto rule   = std::find_if(rules.begin(), rules.end(), [&](const TensorTypeRule & candidate) {
            return std::regex_search(tensor->name, candidate.pattern);
        });
        ggml_type  wanted = mix.type;
        if (rule != rules.end()) {
            wanted                                          = rule->type;
            used[static_cast<size_t>(rule - rules.begin())] = true;
        } else if (mix.is_quantised()) {
            wanted = chooser.choose(*tensor);
        }
        tensor->type = smaller_blocks(wanted, tensor->n_cols);
        if (tensor->type != wanted) {
            fallbacks[{wanted, tensor->type}].push_back(tensor->name);
        }
    }
    report(fallbacks, log);
    for (size_t i = 0; i < rules.size(); ++i) {
        if (!used[i]) {
            fail("`tensor_types` ", in_quotes(rules[i].text), ": no tensor that may be quantised has such a name");
        }
    }
}

} // namespace buoy
