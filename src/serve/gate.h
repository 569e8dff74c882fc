#pragma once

#include "buoy/serve.h"
#include "serve/http.h"

#include <optional>

namespace buoy::serve {

// Who may come in: what can be said about a request before its body is read.
class Gate {
public:
    explicit Gate(const ServeParams & params);

    // The answer where it goes no further: no key, a question of a browser. None: it may come in.
    std::optional<HttpResponse> answer(const HttpRequest & request) const;

    // Headers that let a page of another origin read an answer.
    std::vector<std::pair<std::string, std::string>> cors_headers(const HttpRequest & request) const;

private:
    bool has_key(const HttpRequest & request) const;

    std::vector<std::string> keys_;
    std::vector<std::string> origins_;
    bool                     local_only_; // a name that is not this machine's is a trick of another page
};

// Whether an address can be reached from this machine only.
bool is_local(const std::string & host);

// Takes the same time wherever two texts of one length differ.
bool is_same_secret(const std::string & given, const std::string & expected);

} // namespace buoy::serve
