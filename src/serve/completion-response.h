#pragma once

#include "serve/answers.h"
#include "serve/http.h"

namespace buoy::serve {

// What all parts of one response have in common.
struct ResponseHead {
    std::string id;
    int64_t     created = 0; // seconds since 1970
    std::string model;
    std::string fingerprint;
};

// A whole answer, in the shape of its API.
Json completion_json(const ResponseHead & head, const Answers & answers);

// The events of a stream: what to write for each piece of news, and at the end.
class CompletionStream {
public:
    CompletionStream(ResponseHead head, const Answers & answers, const ServedModel & model);

    std::string event(const AnswerEvent & event);
    std::string end() const;
    std::string error(const ErrorBody & error) const;

private:
    bool is_llama() const; // llama-server's own shape
    Json chunk(size_t index, const Json & delta, const char * finish_reason) const;
    Json pieces_json(const std::vector<int32_t> & tokens) const;
    Json frame_json(size_t index, const Frame & frame) const;

    ResponseHead        head_;
    const Answers &     answers_;
    const ServedModel & model_;
    std::vector<bool>   begun_; // the role was told
};

} // namespace buoy::serve
