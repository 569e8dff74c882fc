#include "support/service.h"

namespace buoy::test {

serve::ServeParams small_params() {
    serve::ServeParams params;
    params.context.n_ctx       = 256;
    params.context.n_threads   = 1;
    params.context.n_sequences = 3;
    params.generate.n_predict  = 16;
    params.random_seed         = false;
    return params;
}

TestService::TestService(const std::string & model_path, serve::ServeParams params) : service(params) {
    service.serve(load_model(model_path, {}, params.context));
}

serve::HttpResponse TestService::send(const std::string & method, const std::string & path, const std::string & body,
                                      const std::string & content_type) {
    serve::HttpRequest request;
    request.method = method;
    request.path   = path;
    request.body   = body;
    if (!content_type.empty()) {
        request.headers["content-type"] = content_type;
    }
    return service.handle(request);
}

serve::HttpResponse TestService::get(const std::string & path) { return send("GET", path); }

serve::HttpResponse TestService::post(const std::string & path, const nlohmann::json & body) {
    return send("POST", path, body.dump());
}

nlohmann::json body_of(const serve::HttpResponse & response) {
    return nlohmann::json::parse(response.body, nullptr, false);
}

std::vector<std::string> events_of(const serve::HttpResponse & response) {
    std::string text;
    if (response.stream) {
        response.stream([&](std::string_view part) {
            text += part;
            return true;
        });
    }
    std::vector<std::string> events;
    for (size_t at = 0, end = 0; (end = text.find("\n\n", at)) != std::string::npos; at = end + 2) {
        const std::string event = text.substr(at, end - at);
        events.push_back(event.starts_with("data: ") ? event.substr(6) : "not an event: " + event);
    }
    return events;
}

std::vector<nlohmann::json> chunks_of(const serve::HttpResponse & response) {
    std::vector<nlohmann::json> chunks;
    for (const std::string & event : events_of(response)) {
        if (event != "[DONE]") {
            chunks.push_back(nlohmann::json::parse(event, nullptr, false));
        }
    }
    return chunks;
}

} // namespace buoy::test
