#include "model/loaded-model.h"

#include "buoy/message.h"
#include "buoy/parse.h"
#include "kernel/kernels.h"
#include "model/unpack.h"

#include <algorithm>

namespace buoy {

const char * attention_kind_name(AttentionKind kind) {
    switch (kind) {
        case AttentionKind::causal: return "causal";
        case AttentionKind::full: return "full";
        case AttentionKind::block_causal: return "block_causal";
    }
    return "unknown";
}

namespace {

HParams all_hparams(const GgufFile & file, const ModelRecipe & recipe) {
    HParams hp = read_hparams(file, recipe.name, recipe.traits);
    if (recipe.read != nullptr) {
        recipe.read(file, hp);
    }
    return hp;
}

} // namespace

LoadedModel::LoadedModel(const GgufFile & file, const ModelRecipe & recipe, const ModelParams & params,
                         const MemoryUse & use)
    : hparams_(all_hparams(file, recipe)), placement_(params, file, hparams_.n_layer, use) {
    const HParams & hp = hparams_;

    info_.path        = file.paths()[0];
    info_.arch        = recipe.name;
    info_.name        = file.get_string("general.name").value_or("");
    info_.n_vocab     = hp.n_vocab;
    info_.n_embd      = hp.n_embd;
    info_.n_layer     = hp.n_layer;
    info_.n_ctx_train = hp.n_ctx_train;
    info_.traits      = read_traits(file, recipe.name, recipe.traits, params);
    check_causal(file, recipe.name, info_.traits, params);
    for (const LayerParams & layer : hp.layers) {
        info_.n_head    = std::max(info_.n_head, layer.n_head);
        info_.n_head_kv = std::max(info_.n_head_kv, layer.n_head_kv);
        info_.head_dim  = std::max(info_.head_dim, layer.head_dim);
    }
    for (const GgufTensor & tensor : file.tensors()) {
        info_.n_bytes += tensor.size;
    }

    const KernelTable * ours = kernel_table();
    use_kernels_             = params.kernels != Kernels::ggml && placement_.cpu_only() && ours != nullptr &&
                   (params.kernels == Kernels::ours || is_measured(ours->set));
    if (use_kernels_ && params.unpack != Unpack::f16) {
        const bool has_amx = params.use_repack && placement_.has_layout("AMX");
        products_          = KernelChoice(params.kernels, has_amx ? KernelSet::amx : ours->set,
                                 info_.traits.is_diffusion() ? RowCount::many : RowCount::one);
    }

    const bool   unpack = choose_unpack(file, placement_, params, info_.traits, products_);
    WeightLoader loader(file, placement_, params, unpack, products_);
    load_common(loader, hp, file.find_tensor("output.weight") == nullptr, weights_);
    weights_.layers.resize(static_cast<size_t>(hp.n_layer));
    for (int32_t il = 0; il < hp.n_layer; il++) {
        recipe.layer(loader, hp, il, weights_.layers[static_cast<size_t>(il)]);
    }
    if (recipe.others != nullptr) {
        recipe.others(loader, hp, weights_);
    }
    memory_ = loader.load(params.progress);
    if (params.log && !placement_.cpu_only()) {
        params.log(LogLevel::info, placement_text());
    } else if (params.log) {
        for (const std::string & text : loader.product_texts()) {
            params.log(LogLevel::info, text);
        }
    }
}

ggml_backend_dev_t LoadedModel::device_of(const ggml_tensor * weight) const {
    ggml_backend_dev_t device = ggml_backend_buft_get_device(ggml_backend_buffer_get_type(weight->buffer));
    return device != nullptr ? device : placement_.cpu(); // ggml's plain host memory belongs to none
}

ggml_backend_dev_t LoadedModel::attention_device(int32_t il) const {
    return device_of(weights_.layers[static_cast<size_t>(il)].k.w);
}

std::vector<PlacedWeight> LoadedModel::placed_weights() const {
    std::vector<PlacedWeight> weights;
    for (const ggml_tensor * tensor : memory_.tensors) {
        weights.push_back({tensor->name, ggml_backend_dev_name(device_of(tensor)), ggml_nbytes(tensor)});
    }
    return weights;
}

std::string LoadedModel::placement_text() const {
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
