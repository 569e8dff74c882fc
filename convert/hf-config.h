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
    MoeParams           moe;
    int64_t             block_length = 0;  // > 0: attention is block-causal
    int64_t             recommended  = 0;  // > 0: a length of blocks to write in, whatever the attention
    int64_t             delete_id    = -1; // LLaDA2.2's tokens that edit the length of a block
    int64_t             split_id     = -1;
    std::optional<bool> tied; // absent: tied if and only if the checkpoint stores one of the two
};

// architectures[0]: model_type is not reliable, two of our architectures share one.
std::string hf_architecture(const HfJson & config);

struct ArchMapping;

HfParams read_params(const HfJson & config, const ArchMapping & mapping);

} // namespace buoy
