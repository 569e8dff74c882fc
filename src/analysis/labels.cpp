#include "analysis/labels.h"

#include "figure/text.h"

namespace buoy::analysis {

std::vector<std::string> token_labels(const Recording & recording) {
    std::vector<std::string> labels;
    for (const std::string & piece : recording.pieces()) {
        labels.push_back(figure::token_label(piece));
    }
    return labels;
}

bool is_masked(const Recording & recording, int32_t step, size_t position) {
    return recording.mask_id() >= 0 && recording.token(static_cast<size_t>(step), position) == recording.mask_id();
}

std::string positions_text(const Recording & recording, const std::vector<size_t> & positions,
                           std::optional<int32_t> step) {
    constexpr size_t n_max = 6;
    std::string      out;
    for (size_t i = 0; i < positions.size() && i < n_max; i++) {
        const bool masked = step && is_masked(recording, *step, positions[i]);
        out += (out.empty() ? "" : ", ") + std::to_string(positions[i]) + " " +
               (masked ? "[mask]" : figure::token_label(recording.pieces()[positions[i]]));
    }
    return out + (positions.size() > n_max ? ", … " + std::to_string(positions.size()) + " in all" : "");
}

std::string anchors_cell(const Recording & recording, const Anchors & anchors, std::optional<int32_t> step) {
    return anchors.positions.empty()
               ? "none"
               : (anchors.fallback ? "fallback: " : "") + positions_text(recording, anchors.positions, step);
}

std::vector<figure::Separator> answer_separator(const Recording & recording) {
    if (recording.n_prompt() == 0 || recording.n_prompt() >= recording.n_positions()) {
        return {};
    }
    return {{recording.n_prompt(), "answer"}};
}

std::string layers_text(const std::vector<int32_t> & layers) {
    if (layers.size() == 1) {
        return "layer " + std::to_string(layers[0]);
    }
    return "mean of " + std::to_string(layers.size()) + " layers, " + std::to_string(layers.front()) + " to " +
           std::to_string(layers.back());
}

std::string base_name(const std::string & path) { return path.substr(path.rfind('/') + 1); }

} // namespace buoy::analysis
