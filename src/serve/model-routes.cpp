// Routes that say something about the model, or turn text into tokens and back.

#include "buoy/message.h"
#include "buoy/utf8.h"
#include "buoy/version.h"
#include "decode/generation-json.h"
#include "io/json-file.h"
#include "serve/fields.h"
#include "serve/service.h"

namespace buoy::serve {

nlohmann::json parse_body(const HttpRequest & request) {
    const std::string type = request.header("content-type");
    if (type.substr(0, type.find(';')) != "application/json") {
        throw HttpError({.status  = 415,
                         .message = type.empty() ? "the request needs \"Content-Type: application/json\""
                                                 : concat("the request needs \"Content-Type: application/json\", not ",
                                                          in_quotes(type))});
    }
    try {
        return parse_json(request.body, "the request body");
    } catch (const Error & error) {
        throw HttpError({.message = error.what()});
    }
}

HttpResponse tokenize(const nlohmann::json & json, const ServedModel & model) {
    const Fields body(json);
    const auto   content = body.text("content");
    if (!content) {
        body.refuse("content", "is missing");
    }
    const std::vector<int32_t> ids = model.vocab.encode(*content, body.flag("add_special").value_or(false),
                                                        body.flag("parse_special").value_or(true));
    if (!body.flag("with_pieces").value_or(false)) {
        return json_response({{"tokens", ids}});
    }
    Json tokens = Json::array();
    for (const int32_t id : ids) {
        tokens.push_back({{"id", id}, {"piece", utf8_repair(model.vocab.piece(id))}});
    }
    return json_response({{"tokens", tokens}});
}

HttpResponse detokenize(const nlohmann::json & json, const ServedModel & model) {
    const Fields           body(json);
    const nlohmann::json * list = body.find("tokens");
    if (list == nullptr || !list->is_array()) {
        body.refuse("tokens", "must be a list of tokens");
    }
    const std::vector<int32_t> ids = body.tokens("tokens", *list, model.vocab.size());
    return json_response({{"content", model.vocab.decode(ids, true)}});
}

HttpResponse apply_template(const nlohmann::json & json, const ServedModel & model) {
    const std::vector<ChatMessage> messages = parse_messages(json);
    if (!model.vocab.has_chat_template()) {
        throw HttpError(
            {.message = concat("the model ", in_quotes(model.name), " has no chat template"), .param = "messages"});
    }
    return json_response({{"prompt", model.vocab.render_chat(messages, true)}});
}

HttpResponse list_models(std::span<const std::shared_ptr<Loaded>> loaded) {
    Json data = Json::array();
    for (const auto & one : loaded) {
        data.push_back({{"id", one->served.name},
                        {"object", "model"},
                        {"created", one->created},
                        {"owned_by", "buoy"},
                        {"meta", model_json(one->served.info)}});
    }
    return json_response({{"object", "list"}, {"data", std::move(data)}});
}

HttpResponse describe_model(const Loaded & loaded) {
    const ServedModel & model    = loaded.served;
    Json                defaults = settings_json(model.info, model.context, model.defaults);
    Json                names    = Json::array();
    for (const AlgorithmInfo & one : algorithms()) {
        names.push_back({{"name", one.name}, {"help", one.help}});
    }
    return json_response(
        {{"default_generation_settings", {{"n_ctx", model.context.n_ctx}, {"params", std::move(defaults)}}},
         {"total_slots", model.context.n_sequences},
         {"model_alias", model.name},
         {"model_path", model.info.path},
         {"has_chat_template", model.vocab.has_chat_template()},
         {"model", model_json(model.info)},
         {"algorithms", std::move(names)},
         {"limits",
          {{"answers", model.limits.n_answers},
           {"steps", model.limits.n_steps},
           {"stop", model.limits.n_stop},
           {"body_bytes", model.limits.body_bytes},
           {"seconds", model.limits.seconds}}},
         {"build_info", std::string("buoy ") + version()}});
}

HttpResponse list_slots(std::span<const std::shared_ptr<Loaded>> loaded) {
    Json slots = Json::array();
    for (const auto & one : loaded) {
        const SchedulerState state = one->scheduler.state();
        for (int32_t i = 0; i < one->served.context.n_sequences; i++) {
            slots.push_back({{"id", slots.size()},
                             {"model", one->served.name},
                             {"n_ctx", one->served.context.n_ctx},
                             {"is_processing", static_cast<size_t>(i) < state.n_running}});
        }
    }
    return json_response(slots);
}

} // namespace buoy::serve
