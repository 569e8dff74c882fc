#pragma once

#include "moe-config.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>

namespace buoy {

using Names = std::initializer_list<const char *>;

// One JSON file of a checkpoint. A value that is null or missing is absent; a value of the wrong type is an Error that
// names the file and the key.
class HfJson {
public:
    static HfJson                load(const std::string & path);
    static std::optional<HfJson> load_if_present(const std::string & path);

    HfJson(std::string path, nlohmann::json json) : path_(std::move(path)), json_(std::move(json)) {}

    const std::string &    path() const { return path_; }
    const nlohmann::json & json() const { return json_; }

    // Each looks the names up in turn and takes the first that is there.
    const nlohmann::json *     find(Names names) const;
    std::optional<int64_t>     find_int(Names names) const;
    std::optional<double>      find_float(Names names) const;
    std::optional<bool>        find_bool(Names names) const;
    std::optional<std::string> find_string(Names names) const;

    int64_t require_int(Names names, int64_t min, int64_t max) const;
    double  require_float(Names names) const;

private:
    std::string    path_;
    nlohmann::json json_;
};

enum class HfRopeKind { none, linear, yarn, llama3 };

struct RopeScaling {
    HfRopeKind            kind             = HfRopeKind::none;
    double                factor           = 1;
    int64_t               n_ctx_original   = 0;
    double                low_freq_factor  = 1; // llama3
    double                high_freq_factor = 4;
    std::optional<double> attention_factor; // yarn: what cos and sin are multiplied with
    std::optional<double> query_beta;       // queries are scaled by 1 + beta · ln(1 + ⌊position / n_ctx_original⌋)
    std::optional<double> beta_fast;
    std::optional<double> beta_slow;
};

// Layers of two kinds: most see a window, the others (global) everything, with heads and a RoPE of their own.
struct WindowParams {
    int64_t              size = 0; // 0: all layers are alike
    std::vector<bool>    sliding;  // [n_layer]
    std::vector<int64_t> n_head_kv;
    int64_t              head_dim_global  = 0;
    double               rope_base_global = 0;
    int64_t              n_pairs_global   = 0; // of a head that are rotated
};

// How a model without a mask token fills a canvas: what its generation_config.json recommends.
struct CanvasParams {
    int64_t                length = 0; // 0: it has a mask token
    std::optional<int64_t> n_steps;
    std::optional<double>  t_min;
    std::optional<double>  t_max;
    std::optional<double>  entropy_bound;
    std::optional<int64_t> stability;
    std::optional<double>  confidence;
};

// What the architectures we convert have in common, whatever their config files call it.
struct HfParams {
    int64_t             n_vocab   = 0; // as the config says; the embedding's rows must agree
    int64_t             n_ctx     = 0;
    int64_t             n_embd    = 0;
    int64_t             n_layer   = 0;
    int64_t             n_ff      = 0;
    int64_t             n_head    = 0;
    int64_t             n_head_kv = 0;
    int64_t             head_dim  = 0;
    int64_t             n_rot     = 0; // the first so many of a head are rotated
    double              norm_eps  = 0;
    double              rope_base = 10000;
    RopeScaling         rope;
    double              logit_softcap = 0;
    MoeParams           moe;
    WindowParams        window;
    CanvasParams        canvas;
    int64_t             block_length = 0;  // > 0: attention is block-causal
    int64_t             recommended  = 0;  // > 0: a length of blocks to write in, whatever the attention
    int64_t             delete_id    = -1; // LLaDA2.2's tokens that edit the length of a block
    int64_t             split_id     = -1;
    std::optional<bool> tied; // absent: tied if and only if the checkpoint stores one of the two

    bool is_sliding(int64_t layer) const { return window.size > 0 && window.sliding[static_cast<size_t>(layer)]; }
    bool is_global(int64_t layer) const { return window.size > 0 && !is_sliding(layer); }

    int64_t layer_head_dim(int64_t layer) const { return is_global(layer) ? window.head_dim_global : head_dim; }
    int64_t layer_n_head_kv(int64_t layer) const {
        return window.size > 0 ? window.n_head_kv[static_cast<size_t>(layer)] : n_head_kv;
    }
};

// architectures[0]: model_type is not reliable, two of our architectures share one.
std::string hf_architecture(const HfJson & config);

struct ArchMapping;

// The config of a checkpoint. Where the language model's settings lie in a text_config, they are lifted out of it; what the outer config
// says of them, too, counts.
HfJson load_config(const std::string & dir);

// dir: the checkpoint's, for generation_config.json.
HfParams read_params(const HfJson & config, const ArchMapping & mapping, const std::string & dir);

} // namespace buoy
