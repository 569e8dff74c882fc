#include "model/model.h"

#include "kernel/kernels.h"
#include "model/unpack.h"

namespace buoy {

const char * attention_kind_name(AttentionKind kind) {
    switch (kind) {
        case AttentionKind::causal: return "causal";
        case AttentionKind::full: return "full";
        case AttentionKind::block_causal: return "block_causal";
    }
    return "unknown";
}

Model::Model(const GgufFile & file, const Arch & arch, const ModelParams & params)
    : arch_(arch), hparams_(read_hparams(file, arch.name, arch.defaults)), placement_(params, hparams_.n_layer) {
    const HParams & hp = hparams_;

    info_.path        = file.paths()[0];
    info_.arch        = arch.name;
    info_.name        = file.get_string("general.name").value_or("");
    info_.n_vocab     = hp.n_vocab;
    info_.n_embd      = hp.n_embd;
    info_.n_layer     = hp.n_layer;
    info_.n_head      = hp.n_head;
    info_.n_head_kv   = hp.n_head_kv;
    info_.head_dim    = hp.head_dim;
    info_.n_ctx_train = hp.n_ctx_train;
    info_.traits      = read_traits(file, arch.name, arch.defaults);
    for (const GgufTensor & tensor : file.tensors()) {
        info_.n_bytes += tensor.size;
    }

    use_kernels_ = params.use_kernels && placement_.cpu_only() && kernel_table() != nullptr;
    // one token at a time is bound by reading the weights, which ggml's repacked layouts are best at
    use_packed_ = use_kernels_ && info_.traits.is_diffusion() && params.unpack != Unpack::f16;

    const bool   unpack = choose_unpack(file, placement_, params, info_.traits, use_packed_);
    WeightLoader loader(file, placement_, params, unpack, use_packed_);
    weights_.embed       = loader.required("token_embd.weight", {hp.n_embd, hp.n_vocab}, WeightUse::lookup, -1);
    weights_.output_norm = loader.required("output_norm.weight", {hp.n_embd}, WeightUse::multiply, hp.n_layer);
    // without a head of its own a model reads its embedding backwards
    const bool tied = file.find_tensor("output.weight") == nullptr;
    weights_.output =
        tied ? Linear{loader.required("token_embd.weight", {hp.n_embd, hp.n_vocab}, WeightUse::matmul, hp.n_layer)}
             : loader.linear("output", hp.n_embd, hp.n_vocab, hp.n_layer);
    weights_.layers.resize(static_cast<size_t>(hp.n_layer));
    for (int32_t il = 0; il < hp.n_layer; il++) {
        arch.load_layer(loader, hp, il, weights_.layers[static_cast<size_t>(il)]);
    }
    memory_ = loader.load(params.progress);
}

} // namespace buoy
