// Layers whose attention is changed before its softmax. Which keys lose or gain is written into the mask while the pass runs, so
// that one mask serves all layers of a device, and so that a layer's own unedited pattern can decide.

#include "graph/graph.h"
#include "model/model.h"

#include <algorithm>

namespace buoy {

bool GraphKey::is_edited(int32_t layer) const { return std::binary_search(edited.begin(), edited.end(), layer); }

bool GraphKey::is_probed(int32_t layer) const { return std::binary_search(probed.begin(), probed.end(), layer); }

ggml_tensor * Graph::edit_mask(int32_t il) {
    const auto device = [&](int32_t layer) { return model_.attention_device(layer); };
    for (const EditNode & node : edits_) {
        if (device(node.layer) == device(il)) {
            return node.mask;
        }
    }
    ggml_tensor * mask =
        ggml_new_tensor_3d(ctx_.get(), GGML_TYPE_F32, key_.n_kv, key_.n_tokens, key_.edits_by_head ? hp_.n_head : 1);
    ggml_set_input(mask);
    ggml_set_name(mask, "edit_mask");
    return mask;
}

ggml_tensor * Graph::edited_pattern(int32_t il, ggml_tensor * scores) {
    const float scale = hp_.attn_scale();
    EditNode    node;
    node.layer = il;
    node.mask  = edit_mask(il);
    node.ready = scores;
    ggml_build_forward_expand(graph_, scores);
    if (key_.is_probed(il)) {
        node.received = mean_over(1, ggml_soft_max_ext(ctx_.get(), scores, rows_.mask, scale, 0.0f));
        node.ready    = node.received;
        expand_last(node.received);
    }
    ggml_tensor * edited = scores;
    if (node.received != nullptr && model_.attention_device(il) != model_.placement().cpu()) {
        // GPUs reorder what does not depend on each other, and the mask is written once `received` is there
        edited = ggml_add(ctx_.get(), scores, ggml_scale(ctx_.get(), node.received, 0.0f));
    }
    node.pattern = ggml_soft_max_ext(ctx_.get(), edited, node.mask, scale, 0.0f);
    edits_.push_back(node);
    if (key_.has_tap(Tap::attn_scores, il)) {
        taps_.push_back({{Tap::attn_scores, il}, scores, node.ready});
    }
    return node.pattern;
}

} // namespace buoy
