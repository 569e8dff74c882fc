#include "decode/plan.h"

#include "buoy/step-count.h"
#include "decode/schedule.h"
#include "io/gguf-file.h"

#include <algorithm>
#include <limits>

namespace buoy {

namespace {

using Tokens = std::vector<std::pair<int32_t, int32_t>>;

// What a pass writes at least: the last of its masks, so that a schedule that waits for the first ones waits longest.
Tokens write_least(const Pass & pass, const Canvas & canvas, const DecodeSettings & settings, int32_t id) {
    const int32_t n =
        settings.open_ended ? std::min(algorithm_row(settings.algorithm).count_least, pass.due) : pass.due;
    Tokens tokens;
    for (auto at = pass.asked.rbegin(); at != pass.asked.rend() && static_cast<int32_t>(tokens.size()) < n; ++at) {
        if (*at == canvas.end() || canvas.is_masked(*at)) {
            tokens.emplace_back(*at, id);
        }
    }
    if (tokens.empty() && n > 0 && !pass.asked.empty()) {
        tokens.emplace_back(pass.asked.back(), id); // nothing is masked: an edit
    }
    return tokens;
}

} // namespace

StepPlan plan_steps(const ModelInfo & info, const std::vector<int32_t> & prompt, const GenerateParams & asked) {
    GenerateParams params   = asked;
    DecodeSettings settings = resolve_settings(info, params);
    settings.observed       = true;
    params.end_ids.clear();
    Canvas        canvas(info.traits, settings, prompt, params, std::numeric_limits<int32_t>::max());
    const auto    schedule = make_schedule(settings, params, canvas);
    const int32_t id       = info.traits.mask_id == 0 ? 1 : 0; // any but the mask

    StepPlan plan;
    plan.n_positions = std::max(canvas.end(), canvas.wanted());
    // which positions of a last block that is not wanted whole are written first, and which passes cover part of a block, the model
    // decides
    plan.open_ended =
        settings.open_ended ||
        (settings.is_block_causal() && (canvas.wanted() < canvas.end() || settings.cache == DiffusionCache::dual));
    int32_t n_keys = 0; // in the store
    while (const auto pass = schedule->next(canvas)) {
        if (pass->kind == PassKind::pause) {
            plan.steps.emplace_back();
            canvas.write({});
            continue;
        }
        n_keys = std::max(n_keys, pass->to);
        plan.steps.push_back({pass->from, pass->to - pass->from, n_keys});
        canvas.write(write_least(*pass, canvas, settings, id));
        canvas.set_stored(pass->n_stored);
    }
    return plan;
}

int64_t step_count_max(const ModelInfo & info, const std::vector<int32_t> & prompt, const GenerateParams & params) {
    return static_cast<int64_t>(plan_steps(info, prompt, params).steps.size());
}

int32_t trained_length(const ModelFile & file) {
    const std::string arch = file.gguf().get_string("general.architecture").value_or("");
    const int64_t     n    = file.gguf().get_int(arch + ".context_length").value_or(0);
    return static_cast<int32_t>(std::clamp<int64_t>(n, 0, std::numeric_limits<int32_t>::max()));
}

} // namespace buoy
