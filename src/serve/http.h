#pragma once

#include <nlohmann/json.hpp>

#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// A request and its answer, without sockets.

namespace buoy::serve {

using Json = nlohmann::ordered_json;

struct HttpRequest {
    std::string                        method;
    std::string                        path; // decoded, without the query
    std::map<std::string, std::string> query;
    std::map<std::string, std::string> headers; // names in lower case
    std::string                        body;
    std::function<bool()>              is_gone = [] { return false; }; // the client has hung up

    std::string header(const std::string & name) const;    // empty where it is not there
    std::string parameter(const std::string & name) const; // of the query, likewise
};

// Sends part of a body; false where nobody reads any more.
using Write = std::function<bool(std::string_view)>;

struct HttpResponse {
    int                                      status       = 200;
    std::string                              content_type = "application/json";
    std::string                              body;
    std::string                              file;   // sent instead of a body
    std::function<void(const Write & write)> stream; // writes the body piece by piece, on the connection's thread
    std::vector<std::pair<std::string, std::string>> headers;
};

// Why a request is refused, as OpenAI's error object has it.
struct ErrorBody {
    int         status = 400;
    std::string type   = "invalid_request_error";
    std::string message;
    std::string param       = {}; // the field that is wrong
    std::string code        = {};
    int         retry_after = 0; // seconds; > 0: may be asked again then
};

class HttpError : public std::runtime_error {
public:
    explicit HttpError(ErrorBody body) : std::runtime_error(body.message), body_(std::move(body)) {}

    const ErrorBody & body() const { return body_; }

private:
    ErrorBody body_;
};

HttpError queue_full(); // too much waits already

Json         error_json(const ErrorBody & error);
HttpResponse error_response(const ErrorBody & error);
HttpResponse json_response(const Json & json, int status = 200);

// One server-sent event with JSON as its data.
std::string sse_event(const Json & json);

// The prefix and 24 random letters and digits, for ids.
std::string random_name(const std::string & prefix);

inline constexpr const char * sse_done = "data: [DONE]\n\n";

} // namespace buoy::serve
