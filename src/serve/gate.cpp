#include "serve/gate.h"

#include <algorithm>
#include <set>

namespace buoy::serve {

namespace {

// What anybody may ask: whether the server is there, and the page, which asks for the key itself.
const std::set<std::string> open_paths = {"/", "/health", "/v1/health"};

// Without the port, and the brackets of an IPv6 address.
std::string host_name(const std::string & header) {
    if (header.starts_with('[')) {
        return header.substr(1, header.find(']') - 1);
    }
    return header.substr(0, header.find(':'));
}

} // namespace

bool is_same_secret(const std::string & given, const std::string & expected) {
    unsigned char difference = given.size() == expected.size() ? 0 : 1;
    for (size_t i = 0; i < expected.size(); i++) {
        const char c = i < given.size() ? given[i] : '\0';
        difference |= static_cast<unsigned char>(c ^ expected[i]);
    }
    return difference == 0;
}

bool is_local(const std::string & host) { return host == "localhost" || host == "::1" || host.starts_with("127."); }

// A page can let its own name lead to this machine and so read what a server here answers; then the name is what it asks for. A key
// keeps it out as well.
Gate::Gate(const ServeParams & params)
    : keys_(params.api_keys), origins_(params.cors_origins),
      local_only_(is_local(params.host) && params.api_keys.empty()) {}

bool Gate::has_key(const HttpRequest & request) const {
    constexpr std::string_view bearer = "Bearer ";
    const std::string          header = request.header("authorization");
    const std::string given = header.starts_with(bearer) ? header.substr(bearer.size()) : request.header("x-api-key");
    bool              found = false;
    for (const std::string & key : keys_) {
        found = is_same_secret(given, key) || found;
    }
    return found;
}

std::vector<std::pair<std::string, std::string>> Gate::cors_headers(const HttpRequest & request) const {
    const std::string origin = request.header("origin");
    const bool        any    = std::find(origins_.begin(), origins_.end(), "*") != origins_.end();
    if (origin.empty() || (!any && std::find(origins_.begin(), origins_.end(), origin) == origins_.end())) {
        return {};
    }
    return {{"Access-Control-Allow-Origin", any ? "*" : origin}, {"Vary", "Origin"}};
}

std::optional<HttpResponse> Gate::answer(const HttpRequest & request) const {
    if (request.method == "OPTIONS") { // a browser asks before a page may; it sends no key
        HttpResponse response;
        response.status  = 204;
        response.headers = cors_headers(request);
        if (!response.headers.empty()) {
            response.headers.emplace_back("Access-Control-Allow-Methods", "GET, POST, DELETE");
            response.headers.emplace_back("Access-Control-Allow-Headers", "authorization, content-type, x-api-key");
        }
        return response;
    }
    const std::string host = host_name(request.header("host"));
    if (local_only_ && !host.empty() && !is_local(host)) {
        return error_response(
            {.status  = 403,
             .type    = "permission_error",
             .message = "the Host header does not name this machine; a server behind a proxy needs --api-key",
             .code    = "wrong_host"});
    }
    if (keys_.empty() || open_paths.contains(request.path) || has_key(request)) {
        return {};
    }
    return error_response({.status  = 401,
                           .type    = "authentication_error",
                           .message = "a valid API key is needed, as \"Authorization: Bearer KEY\"",
                           .code    = "invalid_api_key"});
}

} // namespace buoy::serve
