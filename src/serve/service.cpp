#include "serve/service.h"

#include "buoy/message.h"
#include "buoy/report.h"
#include "buoy/version.h"
#include "serve/fields.h"
#include "serve/settings.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iomanip>
#include <optional>
#include <sstream>

namespace buoy::serve {

namespace {

int64_t now_seconds() {
    return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
        .count();
}

std::string fingerprint_of(const ModelInfo & info, const ContextParams & context) {
    const std::string text = concat(version(), '|', info.arch, '|', info.name, '|', info.n_bytes, '|', context.n_ctx,
                                    '|', static_cast<int>(context.flash), '|', static_cast<int>(context.type_k), '|',
                                    static_cast<int>(context.type_v));
    uint64_t          hash = 1469598103934665603ull; // FNV-1a
    for (const char c : text) {
        hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
    }
    std::ostringstream out;
    out << "fp_" << std::hex << std::setw(16) << std::setfill('0') << hash;
    return out.str();
}

// libllama's contexts have one sequence.
ContextParams context_params(const Model & model, const ServeParams & params) {
    ContextParams out = params.context;
    if (!model.can_edit() && out.n_sequences > 1) {
        out.n_sequences = 1;
        if (params.log) {
            params.log(LogLevel::notice, concat(printable(model.info().arch),
                                                " runs through libllama, which computes one answer at a time"));
        }
    }
    return out;
}

ServedModel served_model(const Model & model, std::string name, const Context & context, const ServeParams & params) {
    ServedModel out   = {model,           model.info(),     model.vocab(), std::move(name),
                         params.generate, context.params(), params.limits, params.random_seed};
    out.context.n_ctx = context.n_ctx();
    if (!params.ignore_eos) {
        out.defaults.end_ids = model.vocab().end_ids();
    }
    return out;
}

const char * id_prefix(Api api) { return api == Api::chat || api == Api::fim ? "chatcmpl-" : "cmpl-"; }

// The id in a path that fits the pattern, empty where the pattern has none; nothing where it does not fit.
std::optional<std::string> match_path(std::string_view pattern, std::string_view path) {
    const size_t star = pattern.find('*');
    if (star == std::string_view::npos) {
        return pattern == path ? std::optional<std::string>("") : std::nullopt;
    }
    const std::string_view before = pattern.substr(0, star), behind = pattern.substr(star + 1);
    if (path.size() <= before.size() + behind.size() || !path.starts_with(before) || !path.ends_with(behind)) {
        return {};
    }
    const std::string_view id = path.substr(before.size(), path.size() - before.size() - behind.size());
    return id.find('/') == std::string_view::npos ? std::optional<std::string>(id) : std::nullopt;
}

} // namespace

Loaded::Loaded(std::shared_ptr<const Model> given, std::string name, const ServeParams & params)
    : model(std::move(given)), context(model->make_context(context_params(*model, params))),
      served(served_model(*model, std::move(name), *context, params)),
      fingerprint(fingerprint_of(served.info, served.context)), created(now_seconds()),
      scheduler(*context, static_cast<size_t>(params.n_queue)) {}

void Service::serve(std::shared_ptr<const Model> model) {
    std::string           name   = free_name(model->info());
    auto                  loaded = std::make_shared<Loaded>(std::move(model), std::move(name), params_);
    const std::lock_guard lock(mutex_);
    loaded_.push_back(std::move(loaded));
}

// The name asked for, the model's own, its file's, or that with a number: the first that no other model has.
std::string Service::free_name(const ModelInfo & info) const {
    const std::lock_guard lock(mutex_);
    const std::string     stem    = std::filesystem::path(info.path).stem().string();
    const auto            is_free = [&](const std::string & name) {
        return !name.empty() && std::none_of(loaded_.begin(), loaded_.end(),
                                                        [&](const auto & other) { return other->served.name == name; });
    };
    for (const std::string & name : {params_.model_name, info.name, stem}) {
        if (is_free(name)) {
            return name;
        }
    }
    for (size_t n = 2;; n++) {
        if (const std::string name = concat(stem, '-', n); is_free(name)) {
            return name;
        }
    }
}

Service::LoadedList Service::all_loaded() const {
    const std::lock_guard lock(mutex_);
    if (loaded_.empty()) {
        throw HttpError({.status      = 503,
                         .type        = "unavailable_error",
                         .message     = "the model is loading",
                         .code        = "loading",
                         .retry_after = 1});
    }
    return loaded_;
}

std::shared_ptr<Loaded> Service::loaded(const std::string & name) const {
    const LoadedList all = all_loaded();
    if (name.empty() || name == "default") {
        return all.front();
    }
    std::string known;
    for (const auto & one : all) {
        if (one->served.name == name) {
            return one;
        }
        known += (known.empty() ? "" : ", ") + in_quotes(one->served.name);
    }
    throw HttpError({.status  = 404,
                     .message = concat("there is no model ", in_quotes(name), "; this server has ", known),
                     .param   = "model",
                     .code    = "model_not_found"});
}

std::shared_ptr<Loaded> Service::loaded(const nlohmann::json & body) const {
    return loaded(Fields(body).text("model").value_or(""));
}

HttpResponse Service::complete(const HttpRequest & request, Api api) {
    all_loaded(); // a body is not looked at before there is a model
    const nlohmann::json          body   = parse_body(request);
    const std::shared_ptr<Loaded> loaded = this->loaded(body);
    if (loaded->scheduler.is_full()) { // before a template is run for nothing
        throw queue_full();
    }
    const auto answers = std::make_shared<Answers>(loaded->served, parse_completion(body, api, loaded->served), runs_);
    const ResponseHead head = {random_name(id_prefix(api)), now_seconds(), loaded->served.name, loaded->fingerprint};
    {
        const std::lock_guard lock(mutex_);
        std::erase_if(running_, [](const auto & one) { return one.second.expired(); });
        running_[head.id] = answers;
    }
    answers->submit(loaded->scheduler);
    HttpResponse response;
    response.headers.emplace_back("X-Request-Id", head.id);
    if (!answers->request().stream) {
        while (answers->next(request.is_gone)) {
        }
        response.body = json_response(completion_json(head, *answers)).body;
        return response;
    }
    response.content_type = "text/event-stream";
    response.headers.emplace_back("Cache-Control", "no-cache");
    response.stream = [loaded, answers, head, is_gone = request.is_gone](const Write & write) {
        CompletionStream stream(head, *answers, loaded->served);
        try {
            while (const auto event = answers->next(is_gone)) {
                const std::string text = stream.event(*event);
                if (!text.empty() && !write(text)) {
                    answers->cancel();
                    return;
                }
            }
            write(stream.end());
        } catch (const HttpError & error) {
            write(stream.error(error.body()));
        } catch (const std::exception & error) {
            write(stream.error({.status = 500, .type = "server_error", .message = printable(error.what())}));
        }
    };
    return response;
}

HttpResponse Service::cancel(const std::string & id) {
    std::shared_ptr<Answers> answers;
    {
        const std::lock_guard lock(mutex_);
        const auto            found = running_.find(id);
        answers                     = found != running_.end() ? found->second.lock() : nullptr;
    }
    if (!answers) {
        throw HttpError({.status  = 404,
                         .message = concat("no request ", in_quotes(id), " is being answered"),
                         .code    = "not_found"});
    }
    answers->cancel();
    return json_response({{"id", id}, {"object", "completion.cancelled"}, {"cancelled", true}});
}

void Service::stop() {
    const std::lock_guard lock(mutex_);
    for (const auto & [id, weak] : running_) {
        if (const auto answers = weak.lock()) {
            answers->cancel();
        }
    }
}

HttpResponse Service::health() const {
    all_loaded();
    return json_response({{"status", "ok"}});
}

HttpResponse Service::metrics() const {
    SchedulerState state;
    for (const auto & one : all_loaded()) {
        state += one->scheduler.state();
    }
    std::ostringstream out;
    out.imbue(std::locale::classic());
    const auto add = [&](const char * name, const char * kind, const char * help, auto value) {
        out << "# HELP " << name << " " << help << "\n# TYPE " << name << " " << kind << "\n"
            << name << " " << value << "\n";
    };
    // llama-server's names, where it counts the same
    add("llamacpp:prompt_tokens_total", "counter", "Prompt tokens of requests that began.", state.n_prompt);
    add("llamacpp:tokens_predicted_total", "counter", "Tokens generated.", state.n_generated);
    add("llamacpp:tokens_predicted_seconds_total", "counter", "Seconds spent computing passes.", state.seconds);
    add("llamacpp:n_decode_total", "counter", "Passes over the batch.", state.n_passes);
    add("llamacpp:n_busy_slots_per_decode", "gauge", "Sequences per pass, on average.",
        state.n_passes > 0 ? static_cast<double>(state.n_steps) / static_cast<double>(state.n_passes) : 0.0);
    add("llamacpp:requests_processing", "gauge", "Sequences being generated.", state.n_running);
    add("llamacpp:requests_deferred", "gauge", "Sequences that wait.", state.n_waiting);
    add("buoy:steps_total", "counter", "Steps of all sequences.", state.n_steps);
    add("buoy:failed_total", "counter", "Sequences that ended with an error.", state.n_failed);
    add("buoy:requests_total", "counter", "HTTP requests.", n_requests_.load());
    add("buoy:errors_total", "counter", "HTTP requests that were answered with an error.", n_errors_.load());
    HttpResponse response;
    response.content_type = "text/plain; version=0.0.4";
    response.body         = out.str();
    return response;
}

HttpResponse Service::list_runs() const {
    Json data = Json::array();
    for (const Runs::Entry & run : runs_.list()) {
        data.push_back({{"id", run.id}, {"object", "run"}, {"created", run.created}, {"bytes", run.n_bytes}});
    }
    return json_response({{"object", "list"}, {"data", std::move(data)}});
}

HttpResponse Service::send_run(const std::string & id) const {
    HttpResponse response;
    response.file         = runs_.find(id);
    response.content_type = "application/zip";
    response.headers.emplace_back("Content-Disposition", "attachment; filename=\"" + id + ".npz\"");
    return response;
}

// The report's page, made when it is first asked for.
HttpResponse Service::send_report(const std::string & id) const {
    const std::string recording = runs_.find(id);
    HttpResponse      response;
    response.file         = runs_.path(id, ".html");
    response.content_type = "text/html; charset=utf-8";
    if (!std::filesystem::exists(response.file)) {
        report::ReportParams params;
        params.paths = {recording};
        params.out   = response.file;
        params.force = true; // another request may have been faster
        report::write_report(params);
    }
    return response;
}

HttpResponse Service::delete_run(const std::string & id) {
    runs_.remove(id);
    return json_response({{"id", id}, {"object", "run.deleted"}, {"deleted", true}});
}

HttpResponse Service::route(const HttpRequest & request) {
    struct Route {
        const char *                                     method;
        const char *                                     path; // * stands for an id
        std::function<HttpResponse(const std::string &)> answer;
    };
    using Body         = nlohmann::json;
    const auto of_body = [&](HttpResponse (*answer)(const Body &, Loaded &)) {
        return [&, answer](const std::string &) {
            all_loaded();
            const Body body = parse_body(request);
            return answer(body, *loaded(body));
        };
    };
    const Route routes[] = {
        {"POST", "/v1/chat/completions", [&](const std::string &) { return complete(request, Api::chat); }},
        {"POST", "/v1/completions", [&](const std::string &) { return complete(request, Api::text); }},
        {"POST", "/v1/fim/completions", [&](const std::string &) { return complete(request, Api::fim); }},
        {"POST", "/infill", [&](const std::string &) { return complete(request, Api::infill); }},
        {"POST", "/completion", [&](const std::string &) { return complete(request, Api::plain); }},
        {"DELETE", "/v1/chat/completions/*", [&](const std::string & id) { return cancel(id); }},
        {"DELETE", "/v1/completions/*", [&](const std::string & id) { return cancel(id); }},
        {"POST", "/tokenize", of_body([](const Body & body, Loaded & model) { return tokenize(body, model.served); })},
        {"POST", "/detokenize",
         of_body([](const Body & body, Loaded & model) { return detokenize(body, model.served); })},
        {"POST", "/apply-template",
         of_body([](const Body & body, Loaded & model) { return apply_template(body, model.served); })},
        {"POST", "/v1/candidates", of_body(find_candidates)},
        {"POST", "/v1/screencast", [&](const std::string &) { return make_screencast(request); }},
        {"GET", "/", [&](const std::string &) { return send_page(); }},
        {"GET", "/health", [&](const std::string &) { return health(); }},
        {"GET", "/v1/health", [&](const std::string &) { return health(); }},
        {"GET", "/v1/models", [&](const std::string &) { return list_models(all_loaded()); }},
        {"GET", "/props", [&](const std::string &) { return describe_model(*loaded(request.parameter("model"))); }},
        {"GET", "/slots", [&](const std::string &) { return list_slots(all_loaded()); }},
        {"GET", "/v1/runs", [&](const std::string &) { return list_runs(); }},
        {"GET", "/v1/runs/*", [&](const std::string & id) { return send_run(id); }},
        {"GET", "/v1/runs/*/report", [&](const std::string & id) { return send_report(id); }},
        {"DELETE", "/v1/runs/*", [&](const std::string & id) { return delete_run(id); }},
        {"GET", "/metrics", [&](const std::string &) { return metrics(); }},
    };
    std::string allowed;
    for (const Route & one : routes) {
        const auto id = match_path(one.path, request.path);
        if (id && request.method == one.method) {
            return one.answer(*id);
        }
        allowed += id ? (allowed.empty() ? "" : ", ") + std::string(one.method) : "";
    }
    if (allowed.empty()) {
        throw HttpError(
            {.status = 404, .message = concat("there is no route ", in_quotes(request.path)), .code = "not_found"});
    }
    HttpResponse response = error_response(
        {.status  = 405,
         .message = concat(in_quotes(request.path), " takes ", allowed, ", not ", printable(request.method)),
         .code    = "method_not_allowed"});
    response.headers.emplace_back("Allow", allowed);
    return response;
}

HttpResponse Service::handle(const HttpRequest & request) {
    n_requests_++;
    HttpResponse response;
    try {
        response = route(request);
    } catch (const HttpError & error) {
        response = error_response(error.body());
    } catch (const Error & error) {
        const bool wrong = error.kind() == ErrorKind::request;
        response         = error_response({.status  = wrong ? 400 : 500,
                                           .type    = wrong ? "invalid_request_error" : "server_error",
                                           .message = in_fields(error.what())});
    } catch (const std::exception & error) {
        response = error_response({.status = 500, .type = "server_error", .message = printable(error.what())});
    }
    n_errors_ += response.status >= 400 ? 1 : 0;
    if (params_.log) {
        const std::string line =
            concat(printable(request.method, 16), " ", printable(request.path, 100), ": ", response.status);
        const bool ours = response.status == 500; // not the client's fault, and not a full queue
        params_.log(ours ? LogLevel::warn : LogLevel::info, ours ? line + " " + printable(response.body, 500) : line);
    }
    return response;
}

} // namespace buoy::serve
