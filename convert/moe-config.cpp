#include "moe-config.h"

#include "buoy/message.h"
#include "hf-config.h"

#include <cmath>

namespace buoy {

namespace {

using Json = nlohmann::json;

constexpr int64_t SIZE_MAX_32 = INT32_MAX;

// Four ways to say which layers are ordinary: the first so many, a list, every so many, one flag a layer.
std::vector<bool> read_dense(const HfJson & config, int64_t n_layer) {
    const int64_t first  = config.find_int({"first_k_dense_replace"}).value_or(0);
    const int64_t every  = config.find_int({"decoder_sparse_step"}).value_or(1);
    const Json *  listed = config.find({"mlp_only_layers"});
    const Json *  flags  = config.find({"moe_layer_freq"});
    if (every < 1) {
        fail(config.path(), ": 'decoder_sparse_step' is ", every, ", expected 1 or more");
    }
    if (flags != nullptr && flags->is_array() && static_cast<int64_t>(flags->size()) != n_layer) {
        fail(config.path(), ": 'moe_layer_freq' has ", flags->size(), " entries, the model ", n_layer, " layers");
    }
    std::vector<bool> in_list(static_cast<size_t>(n_layer));
    for (const Json & layer : listed != nullptr && listed->is_array() ? *listed : Json::array()) {
        if (layer.is_number_integer() && layer >= 0 && layer < n_layer) {
            in_list[layer.get<size_t>()] = true;
        }
    }
    std::vector<bool> dense;
    for (int64_t layer = 0; layer < n_layer; layer++) {
        const bool named   = in_list[static_cast<size_t>(layer)];
        const bool flagged = flags != nullptr && flags->is_array() && (*flags)[static_cast<size_t>(layer)] == Json(0);
        dense.push_back(layer < first || named || (layer + 1) % every != 0 || flagged);
    }
    return dense;
}

} // namespace

MoeParams read_moe(const HfJson & config, const MoeDefaults & defaults, int64_t n_layer) {
    MoeParams moe;
    moe.n_expert    = config.require_int({"num_experts", "num_local_experts", "n_routed_experts"}, 1, 1 << 16);
    moe.n_used      = config.require_int({"num_experts_per_tok", "top_k_experts"}, 1, moe.n_expert);
    moe.n_ff        = config.require_int({"moe_intermediate_size", "expert_intermediate_size"}, 1, SIZE_MAX_32);
    moe.n_shared    = config.find_int({"num_shared_experts"}).value_or(0);
    moe.n_ff_shared = moe.n_ff;
    if (defaults.shared_by_width && config.find_int({"shared_expert_intermediate_size"}).value_or(0) != 0) {
        moe.n_shared    = 1;
        moe.n_ff_shared = config.require_int({"shared_expert_intermediate_size"}, 1, SIZE_MAX_32);
    }
    moe.sigmoid = defaults.sigmoid;
    moe.norm = defaults.norm_from_config ? config.find_bool({"norm_topk_prob"}).value_or(defaults.norm) : defaults.norm;
    moe.scale = defaults.scaled ? config.find_float({"routed_scaling_factor"}).value_or(1.0) : 1.0;
    moe.dense = read_dense(config, n_layer);
    if (moe.n_shared < 0 || moe.n_shared > SIZE_MAX_32 / moe.n_ff_shared) {
        fail(config.path(), ": 'num_shared_experts' is ", moe.n_shared, ", expected 0 or more");
    }
    if (!std::isfinite(moe.scale)) {
        fail(config.path(), ": 'routed_scaling_factor' is not a number");
    }
    const int64_t n_group = config.find_int({"n_group"}).value_or(0);
    if (n_group > 1) {
        moe.n_group        = n_group;
        moe.n_group_used   = config.require_int({"topk_group"}, 1, n_group);
        const int64_t each = moe.n_expert / n_group; // the score of a group is the sum of its two best
        if (moe.n_expert % n_group != 0 || each < 2 || moe.n_used > moe.n_group_used * each) {
            fail(config.path(), ": ", moe.n_expert, " experts in ", n_group, " groups, of which ", moe.n_group_used,
                 " are used, can't give ", moe.n_used, " experts a token");
        }
    }
    return moe;
}

} // namespace buoy
