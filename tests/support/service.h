#pragma once

#include "serve/service.h"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace buoy::test {

// A service with a small random model, without sockets.
struct TestService {
    explicit TestService(const std::string & model_path, serve::ServeParams params = {});

    serve::HttpResponse get(const std::string & path);
    serve::HttpResponse post(const std::string & path, const nlohmann::json & body);
    serve::HttpResponse send(const std::string & method, const std::string & path, const std::string & body = "",
                             const std::string & content_type = "application/json");

    serve::Service service;
};

nlohmann::json body_of(const serve::HttpResponse & response);

// The data of each event of a stream, "[DONE]" included.
std::vector<std::string> events_of(const serve::HttpResponse & response);
// The same as JSON, without "[DONE]".
std::vector<nlohmann::json> chunks_of(const serve::HttpResponse & response);

// Few threads, a short context.
serve::ServeParams small_params();

} // namespace buoy::test
