#pragma once

#include "buoy/infill.h"
#include "serve/attention-request.h"
#include "serve/served-model.h"

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <vector>

namespace buoy::serve {

// Whose shape a request and its answer have.
enum class Api {
    chat,   // OpenAI's /v1/chat/completions
    text,   // OpenAI's /v1/completions
    fim,    // /v1/fim/completions: prompt, suffix
    infill, // llama-server's /infill: input_prefix, input_suffix
    plain,  // llama-server's /completion
};

// What is generated from.
struct Prompt {
    std::vector<int32_t>     tokens;             // with the masks of a gap or of a canvas
    int32_t                  n_given  = 0;       // of them, those before the answer
    int32_t                  n_masked = 0;       // masks of the gap or canvas
    std::vector<ChatMessage> messages;           // what they were rendered from
    std::optional<Infill>    infill;             // what has the gap
    bool                     has_canvas = false; // all masks of the answer are among the tokens
};

// A JSON body, read and checked: everything that can be wrong about it has been said.
struct CompletionRequest {
    Api                      api = Api::chat;
    std::vector<Prompt>      prompts;
    GenerateParams           params;        // n_predict is what the first prompt has room for
    int32_t                  n_answers = 1; // to each prompt
    std::vector<std::string> stop;
    bool                     stream        = false;
    bool                     include_usage = false;
    bool                     diffusing     = false; // each piece is the whole text so far
    bool                     frames        = false; // steps are told too
    AttentionRequest         attention;

    size_t answer_count() const { return prompts.size() * static_cast<size_t>(n_answers); }
};

// Throws HttpError.
CompletionRequest parse_completion(const nlohmann::json & body, Api api, const ServedModel & model);

// The messages of a chat, for a template.
std::vector<ChatMessage> parse_messages(const nlohmann::json & body);

} // namespace buoy::serve
