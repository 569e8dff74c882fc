#include "serve/settings.h"

#include "buoy/message.h"
#include "buoy/names.h"
#include "buoy/parse.h"
#include "serve/http.h"

#include <algorithm>
#include <limits>
#include <random>

namespace buoy::serve {

namespace {

constexpr const char * canvas_field = "seed_canvas";
constexpr const char * pinned_field = "pinned";

// A number of the diffusion object.
struct WholeSetting {
    const char * name;
    int32_t GenerateParams::*value;
    bool                     is_steps = false; // limited by the server
};

constexpr WholeSetting whole_settings[] = {
    {"steps", &GenerateParams::steps, true},           {"steps_per_block", &GenerateParams::steps_per_block, true},
    {"block_length", &GenerateParams::block_length},   {"sub_block_length", &GenerateParams::sub_block_length},
    {"cache_refresh", &GenerateParams::cache_refresh}, {"post_steps", &GenerateParams::post_steps, true},
};

struct NumberSetting {
    const char * name;
    float GenerateParams::*value;
};

constexpr NumberSetting number_settings[] = {
    {"alg_temp", &GenerateParams::alg_temp},
    {"cfg_scale", &GenerateParams::cfg_scale},
};

struct OptionalSetting {
    const char *         name;
    std::optional<float> GenerateParams::*value;
};

constexpr OptionalSetting optional_settings[] = {
    {"threshold", &GenerateParams::threshold},
    {"factor", &GenerateParams::factor},
    {"eps", &GenerateParams::eps},
    {"edit_threshold", &GenerateParams::edit_threshold},
};

std::vector<std::string> diffusion_names() {
    std::vector<std::string> names;
    for (const auto & one : whole_settings) {
        names.emplace_back(one.name);
    }
    for (const auto & one : number_settings) {
        names.emplace_back(one.name);
    }
    for (const auto & one : optional_settings) {
        names.emplace_back(one.name);
    }
    for (const AlgorithmInfo & info : algorithms()) {
        for (const AlgorithmParam & param : info.params) {
            if (std::find(names.begin(), names.end(), param.name) == names.end()) {
                names.emplace_back(param.name);
            }
        }
    }
    names.insert(names.end(), {"preset", "algorithm", "cache", "set", canvas_field, pinned_field});
    return names;
}

template <typename T, size_t N>
void read_choice(const Fields & fields, const char * field, const Name<T> (&names)[N], std::optional<T> & target) {
    const auto name = fields.text(field);
    if (!name) {
        return;
    }
    std::string known;
    for (const auto & [one, value] : names) {
        known += (known.empty() ? "" : ", ") + std::string(one);
        if (*name == one) {
            target = value;
            return;
        }
    }
    fields.refuse(field, concat("must be one of ", known, ", not ", in_quotes(*name)));
}

void read_names(const Fields & fields, GenerateParams & params) {
    if (const auto name = fields.text("algorithm")) {
        try {
            params.algorithm = parse_algorithm(*name);
        } catch (const Error & error) {
            fields.refuse("algorithm", concat("is wrong: ", error.what()));
        }
    }
    read_choice(fields, "cache", cache_names, params.cache);
    read_choice(fields, "preset", preset_names, params.preset);
}

// {"set": {"tau_edge": 0.1}}: constants of the method, by their authors' names.
void read_constants(const Fields & fields, GenerateParams & params) {
    const auto set = fields.object("set");
    if (!set) {
        return;
    }
    for (const auto & [name, value] : set->json().items()) {
        std::string text;
        for (const nlohmann::json & one : value.is_array() ? value : nlohmann::json::array({value})) {
            text += (text.empty() ? "" : ",") +
                    (one.is_string() ? one.get<std::string>()
                     : one.is_null() ? "none"
                                     : one.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
        }
        try {
            apply_setting(params, name, text);
        } catch (const Error & error) {
            fields.refuse("set", concat("is wrong: ", error.what()));
        }
    }
}

void read_diffusion(const Fields & fields, const ServedModel & model, GenerateParams & params) {
    fields.check_known(diffusion_names());
    for (const auto & one : whole_settings) {
        const int64_t most = one.is_steps ? model.limits.n_steps : std::numeric_limits<int32_t>::max();
        if (const auto value = fields.whole(one.name, 0, most)) {
            params.*one.value = static_cast<int32_t>(*value);
        }
    }
    constexpr double most = 1e9; // check_params knows each one's range
    for (const auto & one : number_settings) {
        params.*one.value = fields.number(one.name, 0.0, most).value_or(params.*one.value);
    }
    for (const auto & one : optional_settings) {
        if (const auto value = fields.number(one.name, 0.0, most)) {
            params.*one.value = *value;
        }
    }
    for (const AlgorithmInfo & info : algorithms()) {
        for (const AlgorithmParam & param : info.params) {
            params.*param.value = fields.number(param.name, 0.0, most).value_or(params.*param.value);
        }
    }
    read_names(fields, params);
    read_constants(fields, params);
}

void read_bias(const Fields & body, const ServedModel & model, GenerateParams & params) {
    const auto fields = body.object("logit_bias");
    if (!fields) {
        return;
    }
    for (const auto & [key, value] : fields->json().items()) {
        const auto id = parse_number<int32_t>(key);
        if (!id || *id < 0 || *id >= model.info.n_vocab) {
            body.refuse("logit_bias", concat("names ", in_quotes(key), ", which is not a token; ids go from 0 to ",
                                             model.info.n_vocab - 1));
        }
        params.logit_bias[*id] = fields->number(key, -1e6, 1e6).value_or(0.0f);
    }
}

// The answer as a client gives it: tokens, null where one is to be written.
std::vector<int32_t> canvas_of(const Fields & fields, const ServedModel & model) {
    const nlohmann::json * list = fields.find(canvas_field);
    const int32_t          mask = model.info.traits.mask_id;
    if (list == nullptr) {
        return {};
    }
    if (list->is_string()) { // text with gaps, as infill has it
        try {
            const Infill               text(model.vocab, mask, list->get<std::string>());
            const std::vector<int32_t> tokens = text.tokens();
            const bool                 begins = !tokens.empty() && tokens[0] == model.vocab.bos();
            return {tokens.begin() + (begins ? 1 : 0), tokens.end()};
        } catch (const Error & error) {
            fields.refuse(canvas_field, concat("is wrong: ", error.what()));
        }
    }
    if (!list->is_array() || list->empty()) {
        fields.refuse(canvas_field, concat("must be text with gaps such as [[8]], or a list of tokens and nulls, not ",
                                           shown(*list)));
    }
    std::vector<int32_t> canvas;
    for (const nlohmann::json & one : *list) {
        const double id = one.is_null() ? mask : one.is_number_integer() ? one.get<double>() : -1.0;
        if (!(id >= 0.0 && id < static_cast<double>(model.info.n_vocab))) {
            fields.refuse(canvas_field, concat("holds ", shown(one), "; expected a token or null"));
        }
        canvas.push_back(static_cast<int32_t>(id));
    }
    return canvas;
}

// {"3": 17, "4": " red"}: what stands at these places of the answer.
void pin(const Fields & fields, const ServedModel & model, std::vector<int32_t> & canvas) {
    const auto pinned = fields.object(pinned_field);
    if (!pinned) {
        return;
    }
    for (const auto & [key, value] : pinned->json().items()) {
        const auto at = parse_number<int32_t>(key);
        if (!at || *at < 0 || *at >= model.context.n_ctx) {
            fields.refuse(pinned_field,
                          concat("names place ", in_quotes(key), "; expected a number of the answer's tokens, from 0"));
        }
        std::vector<int32_t> ids;
        if (value.is_string()) {
            ids = model.vocab.encode(value.get<std::string>(), false, false);
        } else {
            ids.push_back(static_cast<int32_t>(pinned->whole(key, 0, model.info.n_vocab - 1).value_or(0)));
        }
        const size_t end = static_cast<size_t>(*at) + ids.size();
        canvas.resize(std::max(canvas.size(), end), model.info.traits.mask_id);
        std::copy(ids.begin(), ids.end(), canvas.begin() + *at);
    }
}

} // namespace

void read_settings(const Fields & body, const ServedModel & model, GenerateParams & params) {
    params.temperature = body.number("temperature", 0.0, 1000.0).value_or(params.temperature);
    params.top_p       = body.number("top_p", 0.0, 1.0).value_or(params.top_p);
    params.min_p       = body.number("min_p", 0.0, 1.0).value_or(params.min_p);
    params.top_k =
        static_cast<int32_t>(body.whole("top_k", 0, std::numeric_limits<int32_t>::max()).value_or(params.top_k));
    if (const auto seed = body.whole("seed", -1, 9'000'000'000'000'000'000); seed && *seed >= 0) {
        params.seed = static_cast<uint64_t>(*seed);
    } else if (seed || model.random_seed) {
        params.seed = std::random_device{}();
    }
    read_bias(body, model, params);
    if (const auto diffusion = body.object("diffusion")) {
        if (!model.info.traits.is_diffusion()) {
            body.refuse("diffusion",
                        concat("has settings for a diffusion model, and ", model.info.arch, " is autoregressive"));
        }
        read_diffusion(*diffusion, model, params);
    }
}

void read_canvas(const Fields & body, const ServedModel & model, Prompt & prompt) {
    const auto fields = body.object("diffusion");
    if (!fields || (!fields->has(canvas_field) && !fields->has(pinned_field))) {
        return;
    }
    if (model.info.traits.writes_canvases()) {
        fields->refuse(fields->has(canvas_field) ? canvas_field : pinned_field,
                       concat("does not apply: ", model.info.arch, " makes its canvas of random tokens itself"));
    }
    std::vector<int32_t> canvas = canvas_of(*fields, model);
    pin(*fields, model, canvas);
    if (!fields->has(canvas_field)) { // what is pinned lies in an answer of the usual length
        const auto n = body.has("max_tokens") ? body.whole("max_tokens", 1, model.context.n_ctx)
                                              : body.whole("max_completion_tokens", 1, model.context.n_ctx);
        canvas.resize(std::max(canvas.size(), static_cast<size_t>(n.value_or(std::max(model.defaults.n_predict, 1)))),
                      model.info.traits.mask_id);
    }
    if (std::find(canvas.begin(), canvas.end(), model.info.traits.mask_id) == canvas.end()) {
        fields->refuse(canvas_field, "leaves nothing to write: every place of the answer is given");
    }
    prompt.n_masked = static_cast<int32_t>(std::count(canvas.begin(), canvas.end(), model.info.traits.mask_id));
    prompt.tokens.insert(prompt.tokens.end(), canvas.begin(), canvas.end());
    prompt.has_canvas = true;
}

std::string in_fields(const std::string & message) {
    std::string text = message;
    for (const auto & [setting, field] :
         {std::pair("`n_predict`", "max_tokens"), std::pair("`n_ctx`", "context (--ctx-size)"),
          std::pair("`record.max_size`", "--runs-max-size")}) {
        for (size_t at = text.find(setting); at != std::string::npos; at = text.find(setting, at)) {
            text.replace(at, std::string(setting).size(), field);
        }
    }
    return text;
}

void check_settings(const ServedModel & model, const GenerateParams & params) {
    try {
        check_params(params, model.info);
    } catch (const Error & error) {
        throw HttpError({.message = in_fields(error.what())});
    }
    if (sequence_count(params) > model.context.n_sequences) {
        throw HttpError(
            {.message = "classifier-free guidance computes two sequences; start the server with --parallel 2 or more",
             .param   = "diffusion.cfg_scale"});
    }
}

} // namespace buoy::serve
