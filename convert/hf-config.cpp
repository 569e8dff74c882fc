#include "hf-config.h"

#include "arch.h"
#include "buoy/message.h"
#include "io/json-file.h"

#include <cmath>
#include <filesystem>
#include <limits>

namespace buoy {

namespace {

using Json = nlohmann::json;

constexpr int64_t SIZE_MAX_32 = std::numeric_limits<int32_t>::max();
constexpr int64_t LAYERS_MAX  = 512; // libllama's limit

std::string joined(Names names) {
    std::string out;
    for (const char * name : names) {
        out += concat(out.empty() ? "'" : " or '", name, "'");
    }
    return out;
}

[[noreturn]] void fail_type(const std::string & path, Names names, const char * expected, const Json & value) {
    fail(path, ": ", joined(names), " is ", value.type_name(), ", expected ", expected);
}

// Where the file does not give it: 0.1·m·ln(factor) + 1 for the two of DeepSeek's, of which the quotient counts.
double yarn_magnitude(const HfJson & rope, double factor) {
    const auto   magnitude = [&](double m) { return factor > 1 ? 0.1 * m * std::log(factor) + 1 : 1.0; };
    const double m         = rope.find_float({"mscale"}).value_or(0);
    const double all       = rope.find_float({"mscale_all_dim"}).value_or(0);
    return m != 0 && all != 0 ? magnitude(m) / magnitude(all) : magnitude(1);
}

RopeScaling read_rope_scaling(const HfJson & rope) {
    RopeScaling       scaling;
    const std::string type = rope.find_string({"rope_type", "type"}).value_or("default");
    if (type == "default") {
        return scaling;
    }
    if (type == "linear") {
        scaling.kind = HfRopeKind::linear;
    } else if (type == "yarn") {
        scaling.kind = HfRopeKind::yarn;
    } else if (type == "llama3") {
        scaling.kind = HfRopeKind::llama3;
    } else {
        fail(rope.path(), ": RoPE scaling '", type, "' is not known; known: default, linear, yarn, llama3");
    }
    scaling.factor = rope.require_float({"factor"});
    if (!(scaling.factor > 0) || !std::isfinite(scaling.factor)) {
        fail(rope.path(), ": RoPE scaling factor ", scaling.factor, ", expected a positive number");
    }
    if (scaling.kind != HfRopeKind::linear) {
        scaling.n_ctx_original = rope.require_int({"original_max_position_embeddings"}, 1, SIZE_MAX_32);
    }
    if (scaling.kind == HfRopeKind::llama3) {
        scaling.low_freq_factor  = rope.require_float({"low_freq_factor"});
        scaling.high_freq_factor = rope.require_float({"high_freq_factor"});
        if (!(scaling.low_freq_factor > 0) || !(scaling.high_freq_factor > scaling.low_freq_factor)) {
            fail(rope.path(), ": RoPE low_freq_factor ", scaling.low_freq_factor, " and high_freq_factor ",
                 scaling.high_freq_factor, ", expected 0 < low < high");
        }
    }
    scaling.attention_factor = rope.find_float({"attention_factor", "attn_factor"});
    scaling.query_beta       = rope.find_float({"llama_4_scaling_beta"});
    if (scaling.kind == HfRopeKind::yarn && !scaling.attention_factor) {
        scaling.attention_factor = yarn_magnitude(rope, scaling.factor);
    }
    scaling.beta_fast = rope.find_float({"beta_fast"});
    scaling.beta_slow = rope.find_float({"beta_slow"});
    return scaling;
}

// Older files: rope_theta at the top, rope_scaling an object, null or false. Newer ones: all in rope_parameters.
void read_rope(const HfJson & config, HfParams & params) {
    std::optional<double> base = config.find_float({"rope_theta"});
    const Json *          rope = config.find({"rope_parameters", "rope_scaling"});
    if (rope != nullptr && rope->is_object()) {
        const HfJson part(config.path(), *rope);
        params.rope = read_rope_scaling(part);
        if (!base) {
            base = part.find_float({"rope_theta"});
        }
    }
    params.rope_base = base.value_or(10000.0);
    if (!(params.rope_base > 0) || !std::isfinite(params.rope_base)) {
        fail(config.path(), ": rope_theta ", params.rope_base, ", expected a positive number");
    }
}

void read_heads(const HfJson & config, HfParams & params) {
    params.n_head = config.require_int({"num_attention_heads", "n_heads"}, 1, SIZE_MAX_32);
    if (config.find({"num_key_value_heads", "n_kv_heads"}) != nullptr) {
        params.n_head_kv = config.require_int({"num_key_value_heads", "n_kv_heads"}, 1, params.n_head);
    } else {
        params.n_head_kv = config.find_bool({"multi_query_attention"}).value_or(false) ? 1 : params.n_head;
    }
    if (params.n_head % params.n_head_kv != 0) {
        fail(config.path(), ": ", params.n_head, " attention heads are not a multiple of ", params.n_head_kv,
             " key/value heads");
    }
    if (config.find({"head_dim"}) != nullptr) {
        params.head_dim = config.require_int({"head_dim"}, 1, SIZE_MAX_32);
    } else if (params.n_embd % params.n_head == 0) {
        params.head_dim = params.n_embd / params.n_head;
    } else {
        fail(config.path(), ": width ", params.n_embd, " is not a multiple of ", params.n_head, " attention heads");
    }
    const double share = config.find_float({"partial_rotary_factor"}).value_or(1.0);
    if (!(share > 0 && share <= 1)) {
        fail(config.path(), ": 'partial_rotary_factor' is ", share, ", expected more than 0 and at most 1");
    }
    params.n_rot = static_cast<int64_t>(static_cast<double>(params.head_dim) * share);
    if (params.n_rot < 2 || params.n_rot % 2 != 0) {
        fail(config.path(), ": ", params.n_rot, " of head dimension ", params.head_dim,
             " are rotated, expected an even number (RoPE)");
    }
}

} // namespace

HfJson HfJson::load(const std::string & path) {
    Json json = load_json(path);
    if (!json.is_object()) {
        fail(path, ": is ", json.type_name(), ", expected an object");
    }
    return HfJson(path, std::move(json));
}

std::optional<HfJson> HfJson::load_if_present(const std::string & path) {
    std::error_code error;
    if (!std::filesystem::exists(path, error)) {
        return std::nullopt;
    }
    return load(path);
}

const Json * HfJson::find(Names names) const {
    for (const char * name : names) {
        const auto found = json_.find(name);
        if (found != json_.end() && !found->is_null()) {
            return &*found;
        }
    }
    return nullptr;
}

std::optional<int64_t> HfJson::find_int(Names names) const {
    const Json * value = find(names);
    if (value == nullptr) {
        return std::nullopt;
    }
    if (!value->is_number_integer() ||
        (value->is_number_unsigned() && value->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))) {
        fail_type(path_, names, "an integer", *value);
    }
    return value->get<int64_t>();
}

std::optional<double> HfJson::find_float(Names names) const {
    const Json * value = find(names);
    if (value == nullptr) {
        return std::nullopt;
    }
    if (!value->is_number()) {
        fail_type(path_, names, "a number", *value);
    }
    return value->get<double>();
}

std::optional<bool> HfJson::find_bool(Names names) const {
    const Json * value = find(names);
    if (value == nullptr) {
        return std::nullopt;
    }
    if (!value->is_boolean()) {
        fail_type(path_, names, "true or false", *value);
    }
    return value->get<bool>();
}

std::optional<std::string> HfJson::find_string(Names names) const {
    const Json * value = find(names);
    if (value == nullptr) {
        return std::nullopt;
    }
    if (!value->is_string()) {
        fail_type(path_, names, "a string", *value);
    }
    return value->get<std::string>();
}

int64_t HfJson::require_int(Names names, int64_t min, int64_t max) const {
    const std::optional<int64_t> value = find_int(names);
    if (!value) {
        fail(path_, ": no ", joined(names));
    }
    if (*value < min || *value > max) {
        fail(path_, ": ", joined(names), " is ", *value, ", expected ", min, " to ", max);
    }
    return *value;
}

double HfJson::require_float(Names names) const {
    const std::optional<double> value = find_float(names);
    if (!value) {
        fail(path_, ": no ", joined(names));
    }
    return *value;
}

std::string hf_architecture(const HfJson & config) {
    const Json * list = config.find({"architectures"});
    if (list == nullptr || !list->is_array() || list->empty() || !list->front().is_string()) {
        fail(config.path(), ": no 'architectures' list");
    }
    return list->front().get<std::string>();
}

HfJson load_config(const std::string & dir) {
    const HfJson outer = HfJson::load((std::filesystem::path(dir) / "config.json").string());
    const Json * text  = outer.find({"text_config"});
    if (text == nullptr || !text->is_object()) {
        return outer;
    }
    Json config = *text;
    for (const auto & [key, value] : outer.json().items()) {
        if (!value.is_null() && key != "text_config") {
            config[key] = value;
        }
    }
    return HfJson(outer.path(), std::move(config));
}

HfParams read_params(const HfJson & config, const ArchMapping & mapping, const std::string & dir) {
    HfParams params;
    params.n_vocab = config.require_int({"embedding_size", "vocab_size"}, 1, SIZE_MAX_32);
    params.n_ctx   = config.require_int({"max_position_embeddings", "max_sequence_length"}, 1, SIZE_MAX_32);
    params.n_embd  = config.require_int({"hidden_size", "d_model"}, 1, SIZE_MAX_32);
    params.n_layer = config.require_int({"num_hidden_layers", "n_layers"}, 1, LAYERS_MAX);
    if (config.find({"intermediate_size", "mlp_hidden_size"}) == nullptr && config.find({"mlp_ratio"}) != nullptr) {
        params.n_ff = config.require_int({"mlp_ratio"}, 1, 1024) * params.n_embd;
    } else {
        params.n_ff = config.require_int(
            {"intermediate_size", "mlp_hidden_size", "dense_intermediate_size", "moe_intermediate_size"}, 1,
            SIZE_MAX_32);
    }
    read_heads(config, params);
    params.norm_eps = config.require_float({"rms_norm_eps"});
    if (!(params.norm_eps >= 0) || !(params.norm_eps < 1)) {
        fail(config.path(), ": rms_norm_eps ", params.norm_eps, ", expected 0 to 1");
    }
    read_rope(config, params);
    params.tied = config.find_bool({"weight_tying", "tie_word_embeddings"});
    if (mapping.has_experts()) {
        params.moe = read_moe(config, mapping.moe, params.n_layer);
    }
    if (mapping.diffusion && config.find({mapping.recommended_key}) != nullptr) {
        params.recommended = config.require_int({mapping.recommended_key}, 1, SIZE_MAX_32);
    }
    for (const auto & [key, id] :
         {std::pair{"delete_token_id", &params.delete_id}, std::pair{"split_token_id", &params.split_id}}) {
        if (mapping.diffusion && config.find({key}) != nullptr) {
            *id = config.require_int({key}, 0, params.n_vocab - 1);
        }
    }
    params.block_length = mapping.block_length;
    if (mapping.block_key != nullptr && config.find({mapping.block_key}) != nullptr) {
        params.block_length = config.require_int({mapping.block_key}, 1, SIZE_MAX_32);
    }
    if (mapping.read != nullptr) {
        const std::string path = (std::filesystem::path(dir) / "generation_config.json").string();
        mapping.read(config, HfJson::load_if_present(path).value_or(HfJson(path, Json::object())), params);
    }
    return params;
}

} // namespace buoy
