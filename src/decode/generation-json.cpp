#include "decode/generation-json.h"

#include "buoy/error.h"
#include "buoy/names.h"
#include "buoy/parse.h"
#include "buoy/preset.h"
#include "buoy/version.h"
#include "decode/method-settings.h"
#include "decode/settings.h"
#include "io/json-file.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <sstream>

namespace buoy {

namespace {

using Json = nlohmann::ordered_json;

// The shortest text that reads as the same float: 0.25, not 0.250000000000000013…
Json number(float value) {
    std::string text;
    for (int digits = 6; digits <= 9; digits++) {
        std::ostringstream out;
        out.imbue(std::locale::classic());
        out << std::setprecision(digits) << value;
        text = out.str();
        if (parse_number<float>(text) == value) {
            break;
        }
    }
    return Json::parse(text, nullptr, false);
}

Json number(const std::optional<float> & value) { return value ? number(*value) : Json(nullptr); }

Json count(int32_t value) { return value > 0 ? Json(value) : Json(nullptr); } // 0 leaves it to the model

// "0.07" is a number, "1,2" a list, "none" nothing; else it is a name.
Json constant(const std::string & text) {
    const bool is_list = text.find(',') != std::string::npos;
    Json       value   = Json::parse(is_list ? "[" + text + "]" : text == "none" ? "null" : text, nullptr, false);
    return value.is_discarded() ? Json(text) : value;
}

// Whose constants apply.
std::vector<const char *> methods_of(const DecodeSettings & settings) {
    return {settings.schedule == ScheduleKind::growing ? "daedal" : algorithm_name(settings.algorithm),
            name_of(cache_names, settings.cache)};
}

void add_canvases(Json & json, const DecodeSettings & settings) {
    const CanvasDefaults & c     = settings.canvas;
    const auto             plain = [](double value) { return number(static_cast<float>(value)); };
    json["schedule"]             = "canvases";
    json["block_length"]         = settings.block_length;
    json["max_denoising_steps"]  = c.steps;
    json["t_min"]                = plain(c.t_min);
    json["t_max"]                = plain(c.t_max);
    json["entropy_bound"]        = plain(c.entropy_bound);
    json["stability_threshold"]  = c.stability_threshold;
    json["confidence_threshold"] = plain(c.confidence_threshold);
    json["pad_token_id"]         = c.pad_id;
    json["draw"]                 = settings.draws_best ? "argmax" : "inverse_cdf";
}

void add_denoising(Json & json, const ModelInfo & info, const GenerateParams & asked) {
    const GenerateParams params   = apply_preset(asked, info).params;
    const DecodeSettings resolved = resolve_settings(info, params);
    if (resolved.schedule == ScheduleKind::canvases) {
        add_canvases(json, resolved);
        return;
    }
    const bool at_once      = resolved.schedule == ScheduleKind::timesteps;
    json["schedule"]        = at_once ? "timesteps" : "blocks";
    json["algorithm"]       = params.scorer ? "scorer" : algorithm_name(resolved.algorithm);
    json["steps"]           = count(params.steps);
    json["steps_per_block"] = count(params.steps_per_block);
    json["block_length"]    = at_once ? Json(nullptr) : count(resolved.block_length);
    json["append_blocks"]   = resolved.append_blocks;
    const bool in_time      = at_once || resolved.schedule == ScheduleKind::block_timesteps;
    json["eps"]             = in_time && !resolved.even_steps ? number(resolved.eps) : Json(nullptr);
    json["alg_temp"]        = number(params.alg_temp);
    json["cfg_scale"]       = number(params.cfg_scale);
    json["threshold"]       = number(resolved.threshold);
    json["factor"]          = number(params.factor);
    json["cache"]           = name_of(cache_names, resolved.cache);
    json["cache_refresh"]   = count(params.cache_refresh);
    if (resolved.is_block_causal()) {
        json["sub_block_length"] = count(resolved.sub_block_length);
        json["edit_threshold"]   = number(params.edit_threshold);
        json["post_steps"]       = params.edit_threshold ? Json(params.post_steps) : Json(nullptr);
    }
    for (const AlgorithmParam & param : algorithm_row(resolved.algorithm).info.params) {
        json[param.name] = number(params.*param.value);
    }
    for (const char * method : methods_of(resolved)) {
        for (const auto & [name, text] : constants_of(method, params, resolved.shift)) {
            json[name] = constant(text);
        }
    }
}

void add_growth(Json & json, const CanvasGrowth & growth, size_t n_prompt) {
    json["stage"] = growth.stage;
    if (growth.stage == 1) {
        json["gen_length"] = growth.length - static_cast<int32_t>(n_prompt);
        return;
    }
    json["canvas_length"] = growth.length;
    if (growth.at >= 0) {
        json["expand_at"]  = growth.at;
        json["new_length"] = growth.length_new;
    }
}

Json sampling_json(const GenerateParams & params) {
    Json bias = Json::object();
    for (const auto & [id, value] : params.logit_bias) {
        bias[std::to_string(id)] = std::isfinite(value) ? number(value) : Json("-inf");
    }
    return {
        {"n_predict", params.n_predict}, {"temperature", number(params.temperature)},
        {"top_k", params.top_k},         {"top_p", number(params.top_p)},
        {"min_p", number(params.min_p)}, {"logit_bias", bias},
    };
}

} // namespace

Json model_json(const ModelInfo & info) {
    Json json = {
        {"path", info.path},
        {"name", info.name},
        {"arch", info.arch},
        {"attention", attention_kind_name(info.traits.attention)},
        {"diffusion", info.traits.is_diffusion()},
        {"shift", info.traits.shift},
        {"mask_id", info.traits.mask_id},
        {"block_length", count(info.traits.block_length)},
        {"n_vocab", info.n_vocab},
        {"n_embd", info.n_embd},
        {"n_layer", info.n_layer},
        {"n_head", info.n_head},
        {"n_head_kv", info.n_head_kv},
        {"head_dim", info.head_dim},
        {"n_ctx_train", info.n_ctx_train},
        {"n_bytes", info.n_bytes},
    };
    if (info.traits.canvas_length > 0) {
        json["canvas_length"] = info.traits.canvas_length;
    }
    if (info.traits.two_modes) {
        json["mode"] = name_of(mode_names, info.traits.is_diffusion() ? ModelMode::diffusion : ModelMode::ar);
    }
    return json;
}

Json settings_json(const ModelInfo & info, const ContextParams & context, const GenerateParams & params) {
    Json json            = sampling_json(params);
    json["end_ids"]      = params.end_ids;
    json["n_ctx"]        = context.n_ctx;
    json["n_threads"]    = count(context.n_threads);
    json["flash_attn"]   = name_of(flash_names, context.flash);
    json["cache_type_k"] = name_of(kv_type_names, context.type_k);
    json["cache_type_v"] = name_of(kv_type_names, context.type_v);
    if (info.traits.is_diffusion()) {
        add_denoising(json, info, params);
    }
    return json;
}

Json asked_json(const GenerateParams & params) {
    Json json = sampling_json(params);
    if (params.preset) {
        json["preset"] = name_of(preset_names, *params.preset);
    }
    json["steps"]            = count(params.steps);
    json["steps_per_block"]  = count(params.steps_per_block);
    json["block_length"]     = count(params.block_length);
    json["append_blocks"]    = params.append_blocks;
    json["sub_block_length"] = count(params.sub_block_length);
    json["eps"]              = number(params.eps);
    json["algorithm"]        = params.algorithm ? Json(algorithm_name(*params.algorithm)) : Json(nullptr);
    json["alg_temp"]         = number(params.alg_temp);
    json["cfg_scale"]        = number(params.cfg_scale);
    json["threshold"]        = number(params.threshold);
    json["factor"]           = number(params.factor);
    json["eb_gamma"]         = number(params.eb_gamma);
    json["pc_lambda"]        = number(params.pc_lambda);
    json["pc_alpha"]         = number(params.pc_alpha);
    json["pc_total"]         = params.pc_table.n_total;
    json["cache"]            = params.cache ? Json(name_of(cache_names, *params.cache)) : Json(nullptr);
    json["cache_refresh"]    = count(params.cache_refresh);
    json["edit_threshold"]   = number(params.edit_threshold);
    json["post_steps"]       = params.post_steps;
    if (params.greedy) {
        json["greedy"] = true;
    }
    if (params.auto_length) {
        json["auto_length"] = true;
    }
    if (!params.settings.empty()) {
        json["constants"] = params.settings;
    }
    return json;
}

Json asked_json(const ContextParams & context) {
    return {
        {"n_ctx", context.n_ctx},
        {"flash_attn", name_of(flash_names, context.flash)},
        {"cache_type_k", name_of(kv_type_names, context.type_k)},
        {"cache_type_v", name_of(kv_type_names, context.type_v)},
    };
}

Json steps_json(const std::vector<StepReport> & steps, size_t n_prompt) {
    Json list = Json::array();
    for (const StepReport & step : steps) {
        Json & json =
            list.emplace_back(Json{{"step", step.step}, {"block", step.block}, {"committed", step.committed}});
        if (step.attention) {
            json["attention"] = attention_kind_name(*step.attention);
        }
        if (!step.computed.empty()) {
            json["queries"] = step.computed;
        }
        if (step.reset_layer) {
            json["reset_layer"] = *step.reset_layer >= 0 ? Json(*step.reset_layer) : Json(nullptr);
        }
        if (step.refreshed) {
            json["refreshed"] = Json::object();
            for (const auto & [layer, positions] : *step.refreshed) {
                json["refreshed"][std::to_string(layer)] = positions;
            }
        }
        if (!step.finished.empty()) {
            json["finished"] = step.finished;
        }
        if (step.growth) {
            add_growth(json, *step.growth, n_prompt);
        }
    }
    return list;
}

double tokens_per_second(const Generation & generation) {
    const auto n = static_cast<double>(generation.n_decoded);
    return generation.decode_ms > 0.0 ? n * 1000.0 / generation.decode_ms : 0.0;
}

std::string generation_json(const GenerationAccount & account) {
    const Generation & generation = account.generation;
    const Json         json       = {
                      {"text", account.text},
                      {"prompt_tokens", generation.prompt},
                      {"tokens", generation.tokens},
                      {"sequence", generation.sequence},
                      {"steps", steps_json(generation.steps, generation.prompt.size())},
                      {"forwards", generation.n_forward},
                      {"seed", account.params.seed},
                      {"ended", generation.ended},
                      {"stopped", generation.stopped},
                      {"model", model_json(account.model)},
                      {"settings", settings_json(account.model, account.context, account.params)},
                      {"timings",
                       {{"load_ms", account.load_ms},
                        {"prompt_ms", generation.prompt_ms},
                        {"decode_ms", generation.decode_ms},
                        {"tokens_per_s", tokens_per_second(generation)}}},
                      {"version", version()},
    };
    return json_line(json);
}

} // namespace buoy
