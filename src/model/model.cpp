#include "model/model.h"

#include "base/fail.h"
#include "base/size.h"
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

Model::Model(const GgufFile & file, const Arch & arch, const ModelParams & params, const MemoryUse & use)
    : arch_(arch), hparams_(read_hparams(file, arch.name, arch.defaults)),
      placement_(params, file, hparams_.n_layer, use) {
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
    if (params.log && !placement_.cpu_only()) {
        params.log(LogLevel::info, placement_text());
    }
}

ggml_backend_dev_t Model::device_of(const ggml_tensor * weight) const {
    ggml_backend_dev_t device = ggml_backend_buft_get_device(ggml_backend_buffer_get_type(weight->buffer));
    return device != nullptr ? device : placement_.cpu(); // ggml's plain host memory belongs to none
}

ggml_backend_dev_t Model::attention_device(int32_t il) const {
    return device_of(weights_.layers[static_cast<size_t>(il)].k.w);
}

std::vector<PlacedWeight> Model::placed_weights() const {
    std::vector<PlacedWeight> weights;
    for (const ggml_tensor * tensor : memory_.tensors) {
        weights.push_back({tensor->name, ggml_backend_dev_name(device_of(tensor)), ggml_nbytes(tensor)});
    }
    return weights;
}

std::string Model::placement_text() const {
    std::string text = "layers:";
    for (ggml_backend_dev_t device : placement_.devices()) {
        int32_t n_layers = 0;
        for (int32_t il = 0; il < hparams_.n_layer; il++) {
            n_layers += attention_device(il) == device ? 1 : 0;
        }
        size_t n_bytes = 0;
        for (const ggml_tensor * tensor : memory_.tensors) {
            n_bytes += device_of(tensor) == device ? ggml_nbytes(tensor) : 0;
        }
        text += concat(device == placement_.devices()[0] ? " " : ", ", ggml_backend_dev_name(device), " ", n_layers,
                       device_of(weights_.output.w) == device ? " and the head" : "", " (", size_text(n_bytes), ")");
    }
    return text;
}

} // namespace buoy
