#include "serve/http.h"

#include "io/json-file.h"

#include <random>

namespace buoy::serve {

namespace {

std::string value_of(const std::map<std::string, std::string> & values, const std::string & name) {
    const auto found = values.find(name);
    return found != values.end() ? found->second : "";
}

} // namespace

std::string HttpRequest::header(const std::string & name) const { return value_of(headers, name); }

std::string HttpRequest::parameter(const std::string & name) const { return value_of(query, name); }

HttpError queue_full() {
    return HttpError({.status      = 503,
                      .type        = "overloaded_error",
                      .message     = "too many requests are waiting; try again later",
                      .code        = "queue_full",
                      .retry_after = 1});
}

Json error_json(const ErrorBody & error) {
    const auto text = [](const std::string & value) { return value.empty() ? Json(nullptr) : Json(value); };
    return {
        {"error",
         {{"message", error.message}, {"type", error.type}, {"param", text(error.param)}, {"code", text(error.code)}}}};
}

HttpResponse error_response(const ErrorBody & error) {
    HttpResponse response = json_response(error_json(error), error.status);
    if (error.retry_after > 0) {
        response.headers.emplace_back("Retry-After", std::to_string(error.retry_after));
    }
    return response;
}

HttpResponse json_response(const Json & json, int status) {
    HttpResponse response;
    response.status = status;
    response.body   = json_line(json);
    return response;
}

std::string sse_event(const Json & json) {
    return "data: " + json_line(json) + "\n"; // a JSON line has no newline but its last
}

std::string random_name(const std::string & prefix) {
    static constexpr char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    std::random_device    device;
    std::string           name = prefix;
    for (int i = 0; i < 24; i++) {
        name += letters[device() % (sizeof(letters) - 1)];
    }
    return name;
}

} // namespace buoy::serve
