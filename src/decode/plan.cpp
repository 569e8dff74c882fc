#include "decode/plan.h"

#include "arch/arch.h"
#include "buoy/preset.h"
#include "buoy/step-count.h"
#include "decode/method-settings.h"
#include "decode/schedule.h"
#include "io/gguf-file.h"

#include <algorithm>
#include <limits>

namespace buoy {

namespace {

// What a pass writes at least: the last of its masks, so that a schedule that waits for the first ones waits longest.
Writes write_least(const Pass & pass, const Canvas & canvas, const DecodeSettings & settings, int32_t id) {
    const int32_t n =
        settings.open_ended ? std::min(algorithm_row(settings.algorithm).count_least, pass.due) : pass.due;
    Writes tokens;
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

// The canvas grows until it has its length, and then every step writes a token: of each mask that becomes several, one less is left.
StepPlan plan_growing(const std::vector<int32_t> & prompt, const GenerateParams & params,
                      const DecodeSettings & settings) {
    const int32_t factor    = SettingReader(params, settings.shift).whole("expansion_factor");
    const int32_t n_initial = std::min(settings.initial_length, params.n_predict);
    const int32_t n_growing = (params.n_predict - n_initial + factor - 1) / factor + 1;
    StepPlan      plan;
    plan.open_ended  = true;
    plan.n_positions = static_cast<int32_t>(prompt.size()) + params.n_predict;
    plan.n_initial   = static_cast<int32_t>(prompt.size()) + n_initial;
    plan.steps.assign(static_cast<size_t>(n_growing) + static_cast<size_t>(params.n_predict) +
                          static_cast<size_t>(factor),
                      {0, plan.n_positions, plan.n_positions});
    return plan;
}

} // namespace

StepPlan plan_steps(const ModelInfo & info, const std::vector<int32_t> & prompt, const GenerateParams & asked) {
    GenerateParams params   = apply_preset(asked, info).params;
    DecodeSettings settings = resolve_settings(info, params);
    settings.observed       = true;
    const bool adaptive     = settings.is_adaptive();
    if (adaptive) { // a step writes one token at least, and computes everything at most
        settings.cache      = DiffusionCache::none;
        settings.schedule   = ScheduleKind::blocks;
        settings.open_ended = true;
    }
    params.end_ids.clear();
    if (settings.schedule == ScheduleKind::growing) {
        return plan_growing(prompt, params, settings);
    }
    Canvas     canvas(info.traits, settings, prompt, params, std::numeric_limits<int32_t>::max());
    const auto schedule = make_schedule(settings, params, canvas);

    StepPlan plan;
    plan.n_positions = std::max(canvas.end(), canvas.wanted());
    plan.n_initial   = canvas.end();
    // which positions of a last block that is not wanted whole are written first, and which passes cover part of a block, the model
    // decides
    plan.open_ended =
        settings.open_ended || adaptive ||
        (settings.is_block_causal() && (canvas.wanted() < canvas.end() || settings.cache == DiffusionCache::dual));
    plan.adaptive  = adaptive;
    int32_t n_keys = 0; // in the store
    while (const auto pass = schedule->next(canvas)) {
        if (pass->kind == PassKind::pause) {
            plan.steps.emplace_back();
            canvas.write(pass->also);
            continue;
        }
        if (pass->kind == PassKind::store) { // text that is read, before a canvas
            canvas.set_stored(pass->n_stored);
            canvas.write(pass->also);
            continue;
        }
        n_keys = std::max(n_keys, pass->to);
        plan.steps.push_back({pass->from, pass->to - pass->from, n_keys});
        canvas.set_stored(pass->n_stored);
        const auto decided = schedule->decide(canvas, {}, {});
        canvas.write(decided ? *decided : write_least(*pass, canvas, settings, canvas.any_id()));
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

int32_t spare_length(const ModelFile & file, const GenerateParams & params) {
    const Arch * arch  = find_arch(file.gguf().get_string("general.architecture").value_or(""));
    const bool   whole = arch != nullptr && (arch->model.traits.two_modes || arch->model.traits.canvases);
    if (!whole || params.n_predict <= 0) {
        return 0;
    }
    ModelInfo info;
    info.arch   = arch->model.name;
    info.traits = read_traits(file.gguf(), info.arch, arch->model.traits);
    return resolve_settings(info, apply_preset(params, info).params).block_length * (params.speculate ? 2 : 1);
}

} // namespace buoy
