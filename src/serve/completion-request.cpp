#include "serve/completion-request.h"

#include "buoy/message.h"
#include "serve/fields.h"
#include "serve/http.h"
#include "serve/settings.h"

#include <algorithm>
#include <limits>

namespace buoy::serve {

namespace {

constexpr int32_t gap_default = 32; // tokens of a gap whose size nobody named

// What OpenAI's API has and a request may carry without effect only where it asks for nothing.
void check_unsupported(const Fields & body) {
    if (const auto format = body.object("response_format"); format && format->text("type").value_or("") != "text") {
        body.refuse("response_format",
                    "can only be {\"type\": \"text\"}: this server cannot force JSON. To fix parts of an answer, use "
                    "diffusion.seed_canvas");
    }
    for (const char * field : {"tools", "functions"}) {
        if (const nlohmann::json * value = body.find(field);
            value != nullptr && !(value->is_array() && value->empty())) {
            body.refuse(field, "is not supported: this server does not call tools");
        }
    }
    for (const char * field : {"presence_penalty", "frequency_penalty"}) {
        if (body.number(field, -2.0, 2.0).value_or(0.0f) != 0.0f) {
            body.refuse(field, "is not supported; leave it out or set it to 0");
        }
    }
    if (const nlohmann::json * value = body.find("logprobs");
        value != nullptr && !(value->is_boolean() && !value->get<bool>())) {
        body.refuse("logprobs", "is not supported; diffusion_frames has the confidence of every position");
    }
    if (body.flag("echo").value_or(false)) {
        body.refuse("echo", "is not supported: answers do not repeat the prompt");
    }
    if (body.whole("best_of", 1, 1 << 20).value_or(1) > 1) {
        body.refuse("best_of", "is not supported; use n, and choose");
    }
}

std::string message_text(const Fields & message) {
    const nlohmann::json * content = message.find("content");
    if (content == nullptr || content->is_string()) {
        return content == nullptr ? "" : content->get<std::string>();
    }
    if (!content->is_array()) {
        message.refuse("content", concat("must be a string or a list of parts, not ", shown(*content)));
    }
    std::string text;
    for (const nlohmann::json & one : *content) {
        const Fields part(one, "messages.content");
        if (part.text("type").value_or("") != "text") {
            part.refuse("type",
                        concat("must be \"text\", not ", shown(part.find("type") ? *part.find("type") : nullptr),
                               ": this server reads text only"));
        }
        text += part.text("text").value_or("");
    }
    return text;
}

std::vector<int32_t> encode_text(const ServedModel & model, const std::string & text) {
    std::vector<int32_t> tokens = model.vocab.encode(text, true, true);
    if (tokens.size() > 1 && tokens[0] == model.vocab.bos() && tokens[1] == tokens[0]) {
        tokens.erase(tokens.begin()); // a prompt of one's own may begin with it
    }
    return tokens;
}

// A text, tokens, or a list of either.
std::vector<Prompt> read_prompts(const Fields & body, const ServedModel & model) {
    const nlohmann::json * value = body.find("prompt");
    if (value == nullptr) {
        body.refuse("prompt", "is missing");
    }
    const auto one_prompt = [&](const nlohmann::json & one) {
        Prompt prompt;
        if (one.is_string()) {
            prompt.tokens = encode_text(model, one.get<std::string>());
        } else if (one.is_array()) {
            prompt.tokens = body.tokens("prompt", one, model.info.n_vocab);
        } else {
            body.refuse("prompt", concat("must be text or a list of tokens, not ", shown(one)));
        }
        prompt.n_given = static_cast<int32_t>(prompt.tokens.size());
        return prompt;
    };
    const bool is_list = value->is_array() && !value->empty() && !value->at(0).is_number();
    if (!is_list) {
        return {one_prompt(*value)};
    }
    if (value->size() > static_cast<size_t>(model.limits.n_answers)) {
        body.refuse("prompt",
                    concat("is a list of ", value->size(), ", at most ", model.limits.n_answers, " are allowed"));
    }
    std::vector<Prompt> prompts;
    for (const nlohmann::json & one : *value) {
        prompts.push_back(one_prompt(one));
    }
    return prompts;
}

Prompt read_chat(const nlohmann::json & body, const ServedModel & model) {
    if (!model.vocab.has_chat_template()) {
        throw HttpError({.message = concat("the model ", in_quotes(model.name),
                                           " has no chat template; use /v1/completions with a prompt"),
                         .param   = "messages"});
    }
    Prompt prompt;
    prompt.messages = parse_messages(body);
    prompt.tokens   = model.vocab.encode_chat(prompt.messages, true);
    prompt.n_given  = static_cast<int32_t>(prompt.tokens.size());
    return prompt;
}

Prompt read_gap(const Fields & body, const ServedModel & model, const std::string & before, const std::string & behind,
                int32_t n_tokens) {
    if (model.info.traits.writes_canvases()) {
        throw HttpError({.message = concat(model.info.arch, " writes behind a text it has read; it can't fill gaps"),
                         .param   = "suffix"});
    }
    if (!model.info.traits.is_diffusion() || model.info.traits.mask_id < 0) {
        throw HttpError(
            {.message = concat(model.info.arch, " is an autoregressive model; only diffusion models can fill gaps"),
             .param   = "suffix"});
    }
    if (n_tokens < 1) {
        body.refuse("max_tokens", "must be at least 1: it is the size of the gap");
    }
    Prompt prompt;
    prompt.infill.emplace(model.vocab, model.info.traits.mask_id,
                          std::vector<Infill::Part>{{before, static_cast<size_t>(n_tokens)}, {behind, 0}});
    prompt.tokens     = prompt.infill->tokens();
    prompt.n_given    = static_cast<int32_t>(prompt.infill->parts()[0].gap_first);
    prompt.n_masked   = n_tokens;
    prompt.has_canvas = true;
    return prompt;
}

// Of max_completion_tokens and its other names; none: what the server was started with.
std::optional<int32_t> read_length(const Fields & body) {
    for (const char * field : {"max_completion_tokens", "max_tokens", "n_predict"}) {
        if (const auto n = body.whole(field, -1, std::numeric_limits<int32_t>::max())) {
            return static_cast<int32_t>(*n);
        }
    }
    return {};
}

// What there is room for: a limit on the answer that is beyond it is kept by any answer.
int32_t room_for(const ServedModel & model, const Prompt & prompt, int32_t n_wanted) {
    const int64_t n_free = static_cast<int64_t>(model.context.n_ctx) - static_cast<int64_t>(prompt.tokens.size());
    if (n_free < (prompt.has_canvas ? 0 : 1)) {
        throw HttpError({.message = concat("the prompt has ", prompt.tokens.size(), " tokens and the context ",
                                           model.context.n_ctx, " positions, which leaves no room for an answer"),
                         .param   = prompt.messages.empty() ? "prompt" : "messages",
                         .code    = "context_length_exceeded"});
    }
    if (prompt.has_canvas) {
        return 0;
    }
    if (const int64_t C = model.info.traits.canvas_length; model.info.traits.writes_canvases() && n_wanted >= 0) {
        return static_cast<int32_t>(std::min((n_wanted + C - 1) / C * C, n_free)); // whole ones, or as many as fit
    }
    return n_wanted < 0 ? static_cast<int32_t>(n_free) : static_cast<int32_t>(std::min<int64_t>(n_wanted, n_free));
}

void read_stream(const Fields & body, const ServedModel & model, CompletionRequest & out) {
    out.stream    = body.flag("stream").value_or(false);
    out.diffusing = body.flag("diffusing").value_or(false);
    out.frames    = body.flag("diffusion_frames").value_or(false);
    if (const auto options = body.object("stream_options")) {
        out.include_usage = options->flag("include_usage").value_or(false);
    }
    for (const auto & [field, set] :
         {std::pair("diffusing", out.diffusing), std::pair("diffusion_frames", out.frames)}) {
        if (set && !out.stream) {
            body.refuse(field, "needs \"stream\": true");
        }
    }
    if (out.diffusing && !model.info.traits.is_diffusion()) {
        body.refuse("diffusing", concat("needs a diffusion model, and ", model.info.arch, " is autoregressive"));
    }
}

void read_stop(const Fields & body, const ServedModel & model, CompletionRequest & out) {
    out.stop = body.texts("stop").value_or(std::vector<std::string>());
    if (out.stop.size() > static_cast<size_t>(model.limits.n_stop)) {
        body.refuse("stop", concat("has ", out.stop.size(), " texts, at most ", model.limits.n_stop, " are allowed"));
    }
    std::erase(out.stop, "");
}

void read_prompt_of(const Fields & body, const ServedModel & model, CompletionRequest & out,
                    std::optional<int32_t> length) {
    const int32_t n_gap = length.value_or(gap_default);
    switch (out.api) {
        case Api::chat: out.prompts = {read_chat(body.json(), model)}; break;
        case Api::infill:
            out.prompts = {read_gap(body, model, body.text("input_prefix").value_or(""),
                                    body.text("input_suffix").value_or(""), n_gap)};
            break;
        case Api::fim:
        case Api::text:
            if (out.api == Api::fim || body.has("suffix")) {
                out.prompts = {
                    read_gap(body, model, body.text("prompt").value_or(""), body.text("suffix").value_or(""), n_gap)};
                break;
            }
            [[fallthrough]];
        case Api::plain: out.prompts = read_prompts(body, model); break;
    }
}

// Whether all masks of a canvas are its end.
bool ends_with_gap(const Prompt & prompt, int32_t mask_id) {
    const auto first = std::find(prompt.tokens.begin() + prompt.n_given, prompt.tokens.end(), mask_id);
    return std::all_of(first, prompt.tokens.end(), [&](int32_t id) { return id == mask_id; });
}

} // namespace

std::vector<ChatMessage> parse_messages(const nlohmann::json & json) {
    const Fields           body(json);
    const nlohmann::json * list = body.find("messages");
    if (list == nullptr) {
        body.refuse("messages", "is missing");
    }
    if (!list->is_array() || list->empty()) {
        body.refuse("messages", concat("must be a list with at least one message, not ", shown(*list)));
    }
    std::vector<ChatMessage> messages;
    for (const nlohmann::json & one : *list) {
        const Fields message(one, concat("messages[", messages.size(), "]"));
        const auto   role = message.text("role");
        if (!role) {
            message.refuse("role", "is missing");
        }
        if (*role == "developer") { // OpenAI's newer name
            messages.push_back({"system", message_text(message)});
        } else if (*role == "system" || *role == "user" || *role == "assistant") {
            messages.push_back({*role, message_text(message)});
        } else {
            message.refuse("role", concat("must be system, user or assistant, not ", in_quotes(*role)));
        }
    }
    return messages;
}

CompletionRequest parse_completion(const nlohmann::json & json, Api api, const ServedModel & model) {
    const Fields      body(json);
    CompletionRequest out;
    out.api    = api;
    out.params = model.defaults;
    check_unsupported(body);
    read_stream(body, model, out);
    read_stop(body, model, out);
    read_settings(body, model, out.params);
    const std::optional<int32_t> length = read_length(body);
    read_prompt_of(body, model, out, length);
    if (out.prompts.size() == 1 && !out.prompts[0].has_canvas) {
        read_canvas(body, model, out.prompts[0]);
    }
    out.n_answers = static_cast<int32_t>(body.whole("n", 1, model.limits.n_answers).value_or(1));
    if (out.answer_count() > static_cast<size_t>(model.limits.n_answers)) {
        body.refuse("n", concat("times the number of prompts is ", out.answer_count(), ", at most ",
                                model.limits.n_answers, " answers are allowed"));
    }
    out.attention = parse_attention(body);
    if (out.attention.is_used() && out.answer_count() > 1) {
        const char * field = out.attention.records     ? "record"
                             : out.attention.in_frames ? "attention"
                                                       : "attention_edit";
        body.refuse(field, "is for a single answer; ask with n 1 and one prompt");
    }
    if (body.flag("ignore_eos").value_or(false)) {
        out.params.end_ids.clear();
    }
    for (const Prompt & prompt : out.prompts) {
        const int32_t n      = room_for(model, prompt, length.value_or(model.defaults.n_predict));
        out.params.n_predict = &prompt == &out.prompts[0] ? n : std::min(out.params.n_predict, n);
        // a gap in the middle is not the end of the text
        const bool in_middle = prompt.has_canvas && !ends_with_gap(prompt, model.info.traits.mask_id);
        for (const int32_t id : in_middle ? model.vocab.end_ids() : std::vector<int32_t>()) {
            out.params.logit_bias.emplace(id, -std::numeric_limits<float>::infinity());
        }
        if (in_middle || prompt.infill) {
            out.params.end_ids.clear();
        }
    }
    check_settings(model, out.params);
    return out;
}

} // namespace buoy::serve
