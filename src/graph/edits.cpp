// Layers whose attention is changed before its softmax. Which keys lose or gain is written into the mask while the pass runs, so
// that one mask serves many layers of a device, and so that a layer's own unedited pattern can decide.

#include "graph/graph.h"

#include <algorithm>

namespace buoy {

ggml_tensor * Graph::edit_mask(int32_t il, size_t sequence) {
    const SequenceKey & seq    = key_.sequences[sequence];
    const int64_t       H      = seq.edits_by_head ? hp_.layer(il).n_head : 1;
    const auto          shares = [&](const EditNode & node) {
        return node.sequence == sequence && node.mask->ne[2] == H &&
               hp_.layer(node.layer).window == hp_.layer(il).window &&
               model_.attention_device(node.layer) == model_.attention_device(il);
    };
    const auto found = std::find_if(edits_.begin(), edits_.end(), shares);
    if (found != edits_.end()) {
        return found->mask;
    }
    ggml_tensor * edited = ggml_new_tensor_3d(ctx_.get(), GGML_TYPE_F32, seq.n_kv, seq.n_tokens, H);
    ggml_set_input(edited);
    ggml_set_name(edited, "edit_mask");
    return edited;
}

ggml_tensor * Graph::edited_pattern(int32_t il, size_t sequence, ggml_tensor * scores, float scale) {
    const SequenceKey & seq    = key_.sequences[sequence];
    const bool          on_cpu = model_.attention_device(il) == model_.placement().cpu();
    // GPUs reorder what does not depend on each other, and the mask is written once `ready` is there
    const auto after = [&](ggml_tensor * x, ggml_tensor * ready) {
        return on_cpu ? x : ggml_add(ctx_.get(), x, ggml_scale(ctx_.get(), ready, 0.0f));
    };
    ggml_build_forward_expand(graph_, scores);
    if (seq.leader != sequence) { // the edits of the sequence it guides
        const EditNode & leader = *std::find_if(edits_.begin(), edits_.end(), [&](const EditNode & node) {
            return node.sequence == seq.leader && node.layer == il;
        });
        ggml_tensor *    ready  = leader.received != nullptr ? leader.received : leader.ready;
        tap_scores(il, sequence, scores, scores, scale);
        ggml_tensor * pattern = ggml_soft_max_ext(ctx_.get(), after(scores, ready), leader.mask, scale, 0.0f);
        pinned_.push_back({il, pattern});
        return pattern;
    }
    EditNode node;
    node.sequence        = sequence;
    node.layer           = il;
    node.mask            = edit_mask(il, sequence);
    node.ready           = scores;
    ggml_tensor * edited = scores;
    if (seq.is_probed(il)) {
        node.received = mean_over(1, ggml_soft_max_ext(ctx_.get(), scores, mask(il, sequence), scale, 0.0f));
        node.ready    = node.received;
        expand_last(node.received);
        edited = after(scores, node.received);
    }
    node.pattern = ggml_soft_max_ext(ctx_.get(), edited, node.mask, scale, 0.0f);
    edits_.push_back(node);
    tap_scores(il, sequence, scores, node.ready, scale);
    return node.pattern;
}

} // namespace buoy
