// The table of the presets, by family.

#include "buoy/preset.h"

#include "buoy/message.h"
#include "buoy/names.h"
#include "buoy/parse.h"
#include "decode/algorithms.h"

#include <algorithm>

namespace buoy {

namespace {

const PresetFamily * family_of(const std::vector<PresetFamily> & families, const std::string & arch) {
    const auto found = std::find_if(families.begin(), families.end(), [&](const PresetFamily & family) {
        return std::find(family.archs.begin(), family.archs.end(), arch) != family.archs.end();
    });
    return found == families.end() ? nullptr : &*found;
}

// Is it a constant of what these params use, or a setting of all methods?
bool is_used(const GenerateParams & params, const std::string & name) {
    const std::vector<MethodSettingInfo> all = method_settings();
    const auto                           found =
        std::find_if(all.begin(), all.end(), [&](const MethodSettingInfo & one) { return one.name == name; });
    const std::vector<std::string> by = split(found == all.end() ? "" : found->methods, ", ");
    const auto has = [&](const char * method) { return std::find(by.begin(), by.end(), method) != by.end(); };
    return has("all") || has(name_of(cache_names, params.cache.value_or(DiffusionCache::none))) ||
           has(algorithm_name(params.algorithm.value_or(Algorithm::confidence)));
}

// Whether the params leave a setting to the preset: they say neither what it is, nor anything that decides the same or excludes it.
bool is_open(const GenerateParams & params, const ModelInfo & info, const std::string & name) {
    const bool counts = params.factor || params.eps || params.algorithm || params.scorer || params.steps > 0 ||
                        params.steps_per_block > 0; // says how many positions a step writes
    if (params.auto_length) {                       // a method of its own
        return false;
    }
    if (name == "threshold") {
        return !params.threshold && !counts;
    }
    if (name == "algorithm") {
        return !counts;
    }
    if (name == "block_length") {
        return params.block_length == 0 && params.steps_per_block == 0 && !params.eps && params.n_predict != 0 &&
               info.traits.recommended_block_length == 0;
    }
    if (name == "cache") {
        const AlgorithmRow * row = params.algorithm ? &algorithm_row(*params.algorithm) : nullptr;
        const bool           alone =
            row != nullptr && (row->sees_all || row->counts_steps || row->blocks == BlockUse::never || row->serves);
        return !params.cache && !params.eps && params.cfg_scale == 0.0f && !params.append_blocks && !alone;
    }
    return params.settings.count(name) == 0;
}

} // namespace

std::vector<PresetFamily> preset_families() {
    return {
        {"LLaDA",
         {"llada", "illada", "llada-moe"},
         "block_length=32 threshold=0.9 cache=anchor tau_stale=0.005",
         "block_length=32 algorithm=plus-one threshold=0.9 cache=anchor tau_stale=0.08",
         "measured with the bundled model"},
        {"Dream",
         {"dream"},
         "block_length=32 threshold=0.9",
         "block_length=32 threshold=0.9 cache=dual",
         "Fast-dLLM's, not measured here"},
        {"SDAR",
         {"sdar", "sdar_moe"},
         "threshold=0.95",
         "threshold=0.85",
         "the ends of the range that its authors recommend, not measured here"},
        {"LLaDA2", {"llada2"}, "threshold=0.95", "threshold=0.95", "the authors' one setting, not measured here"},
        {"Fast-dLLM v2",
         {"fast-dllm-v2"},
         "threshold=0.9",
         "threshold=0.9 cache=dual",
         "the authors', without and with their block cache, not measured here"},
        {"Stable-DiffCoder",
         {"stable-diffcoder"},
         "threshold=0.9",
         "threshold=0.9",
         "the authors' one setting, not measured here"},
        {"Nemotron-Labs-Diffusion",
         {"nemotron-labs-diffusion"},
         "threshold=0.9",
         "threshold=0.9",
         "the authors' one setting, not measured here"},
    };
}

AppliedPreset apply_preset(const GenerateParams & params, const ModelInfo & info) {
    AppliedPreset applied;
    applied.params        = params;
    applied.params.preset = {};
    const Preset preset   = params.preset.value_or(Preset::exact);
    if (preset == Preset::exact) {
        return applied;
    }
    const std::vector<PresetFamily> families = preset_families();
    const PresetFamily *            family   = family_of(families, info.arch);
    if (!info.traits.is_diffusion() || family == nullptr) {
        applied.note = concat("preset ", name_of(preset_names, preset), " is exact here: ", info.arch,
                              info.traits.is_diffusion() ? " is a family that nothing was measured for"
                                                         : " is autoregressive, and each token needs its pass");
        return applied;
    }
    for (const std::string & setting : split(preset == Preset::fast ? family->fast : family->balanced, " ")) {
        const std::string name = setting.substr(0, setting.find('='));
        if (is_open(params, info, name) && is_used(applied.params, name)) {
            apply_setting(applied.params, setting);
            applied.settings.push_back(setting);
        }
    }
    return applied;
}

} // namespace buoy
