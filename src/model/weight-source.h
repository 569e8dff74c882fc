#pragma once

#include "model/hparams.h"
#include "model/weights.h"

#include <cstdint>
#include <string>
#include <vector>

namespace buoy {

// What a weight is used for decides which memory layouts are possible for it.
enum class WeightUse { lookup, matmul, experts, multiply, add, rope };

// Whether a file has a weight: it must, it usually has, it may have.
enum class Presence { required, usual, optional };

struct WeightSpec {
    std::string          name; // in the file
    std::vector<int64_t> shape;
    WeightUse            use      = WeightUse::matmul;
    Presence             presence = Presence::required;
    int32_t              layer    = 0; // it is placed with; -1: the embedding, L: the head
};

// What not every attention has.
struct AttentionParts {
    Presence bias  = Presence::optional; // of Q, K and V
    Presence fused = Presence::optional; // Q, K and V are one matrix
};

// Where an architecture declares its weights, once: a file that is loaded, or the plan of a file to be written.
class WeightSource {
public:
    virtual ~WeightSource() = default;

    // Null where there is none, which only what is not required may be; and always while a file is planned.
    virtual ggml_tensor * get(const WeightSpec & spec) = 0;

    // Is the weight there, or will it be?
    virtual bool has(const std::string & name, Presence presence) const = 0;

    // Rows [first, first + n) of a weight that holds several behind each other: w [n_in, n_rows].
    struct Part {
        int64_t first = 0;
        int64_t n     = 0;
    };
    virtual Linear part(const std::string & base, int64_t n_in, int64_t n_rows, const Part & part, int32_t layer) = 0;

    // base + ".weight", and ".bias" and ".scale".
    Linear linear(const std::string & base, int64_t n_in, int64_t n_out, int32_t layer);
    Norm   norm(const std::string & base, int64_t n, int32_t layer); // base + ".weight", and ".bias"

    // The halves nearly every decoder block has, under upstream's names.
    void attention(int32_t il, const HParams & hp, LayerWeights & layer, const AttentionParts & parts = {});
    void head_norms(int32_t il, const HParams & hp, LayerWeights & layer);
    void swiglu(int32_t il, const HParams & hp, LayerWeights & layer);
    void experts(int32_t il, const HParams & hp, LayerWeights & layer,
                 Presence select_bias = Presence::optional); // or an ordinary FFN, where the layer has one
    void experts_beside(int32_t il, const HParams & hp, LayerWeights & layer); // with scales; an FFN is there as well
};

// The embedding, the last norm and the head, under upstream's names; tied: a model without a head reads its embedding backwards.
void load_common(WeightSource & source, const HParams & hp, bool tied, Weights & weights);

// "blk.7.attn_q" for ("attn_q", 7)
std::string block_name(const char * part, int32_t il);

} // namespace buoy
