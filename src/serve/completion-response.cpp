#include "serve/completion-response.h"

#include "buoy/utf8.h"

#include <algorithm>
#include <map>

namespace buoy::serve {

namespace {

bool is_chat(Api api) { return api == Api::chat || api == Api::fim; }

bool is_llama_api(Api api) { return api == Api::plain || api == Api::infill; }

// Tokens that were given, not those to be written among them.
int64_t prompt_tokens(const Answers & answers) {
    int64_t n = 0;
    for (const Prompt & prompt : answers.request().prompts) {
        n += static_cast<int64_t>(prompt.tokens.size()) - prompt.n_masked;
    }
    return n;
}

Json usage_json(const Answers & answers) {
    const int64_t n_prompt = prompt_tokens(answers);
    int64_t       n        = 0;
    for (size_t i = 0; i < answers.request().answer_count(); i++) {
        n += answers.answer(i).n_tokens;
    }
    return {{"prompt_tokens", n_prompt}, {"completion_tokens", n}, {"total_tokens", n_prompt + n}};
}

Json timings_json(const Answer & answer) {
    const double seconds = answer.decode_ms / 1000.0;
    return {
        {"prompt_ms", answer.prompt_ms},    {"predicted_n", answer.n_tokens},
        {"predicted_ms", answer.decode_ms}, {"predicted_per_second", seconds > 0.0 ? answer.n_tokens / seconds : 0.0},
        {"steps", answer.n_steps},          {"forwards", answer.n_forward}};
}

Json head_json(const ResponseHead & head, const char * object) {
    return {{"id", head.id},
            {"object", object},
            {"created", head.created},
            {"model", head.model},
            {"system_fingerprint", head.fingerprint}};
}

// What was recorded and edited.
void add_attention(Json & json, const Answers & answers) {
    if (!answers.run_id().empty()) {
        json["run"] = {{"id", answers.run_id()}};
    }
    if (Json edit = answers.edit_json(); !edit.is_null()) {
        json["edit"] = std::move(edit);
    }
}

// llama-server's answer, whole or the last piece of one.
Json plain_json(const ResponseHead & head, const Answers & answers, const std::string & content) {
    const Answer & answer = answers.answer(0);
    Json           json   = {{"index", 0},
                             {"content", content},
                             {"id_slot", -1},
                             {"stop", true},
                             {"model", head.model},
                             {"tokens_predicted", answer.n_tokens},
                             {"tokens_evaluated", prompt_tokens(answers)},
                             {"stop_type", !answer.stop_text.empty()        ? "word"
                                           : answer.finish_reason == "stop" ? "eos"
                                                                            : "limit"},
                             {"stopping_word", answer.stop_text},
                             {"truncated", false},
                             {"seed", answer.seed},
                             {"timings", timings_json(answer)}};
    add_attention(json, answers);
    return json;
}

} // namespace

Json completion_json(const ResponseHead & head, const Answers & answers) {
    const Api api = answers.request().api;
    if (is_llama_api(api)) {
        return plain_json(head, answers, answers.answer(0).text);
    }
    Json json    = head_json(head, is_chat(api) ? "chat.completion" : "text_completion");
    Json choices = Json::array();
    for (size_t i = 0; i < answers.request().answer_count(); i++) {
        const Answer & answer = answers.answer(i);
        Json           choice = {{"index", i}};
        if (is_chat(api)) {
            choice["message"] = {{"role", "assistant"}, {"content", answer.text}, {"refusal", nullptr}};
        } else {
            choice["text"] = answer.text;
        }
        choice["logprobs"]      = nullptr;
        choice["finish_reason"] = answer.finish_reason;
        choices.push_back(std::move(choice));
    }
    json["choices"] = std::move(choices);
    json["usage"]   = usage_json(answers);
    json["seed"]    = answers.answer(0).seed;
    json["timings"] = timings_json(answers.answer(0));
    add_attention(json, answers);
    return json;
}

CompletionStream::CompletionStream(ResponseHead head, const Answers & answers, const ServedModel & model)
    : head_(std::move(head)), answers_(answers), model_(model), begun_(answers.request().answer_count(), false) {}

bool CompletionStream::is_llama() const { return is_llama_api(answers_.request().api); }

Json CompletionStream::chunk(size_t index, const Json & delta, const char * finish_reason) const {
    const Api api    = answers_.request().api;
    Json      json   = head_json(head_, is_chat(api) ? "chat.completion.chunk" : "text_completion");
    Json      choice = {{"index", index}};
    if (is_chat(api)) {
        choice["delta"] = delta;
    } else {
        choice["text"] = delta.value("content", "");
    }
    choice["logprobs"]      = nullptr;
    choice["finish_reason"] = finish_reason != nullptr ? Json(finish_reason) : Json(nullptr);
    json["choices"]         = Json::array({std::move(choice)});
    if (answers_.request().include_usage) {
        json["usage"] = nullptr;
    }
    return json;
}

Json CompletionStream::pieces_json(const std::vector<int32_t> & tokens) const {
    Json pieces = Json::array();
    for (const int32_t id : tokens) {
        pieces.push_back(utf8_repair(model_.vocab.piece(id)));
    }
    return {{"tokens", tokens}, {"pieces", std::move(pieces)}};
}

Json CompletionStream::frame_json(size_t index, const Frame & frame) const {
    const int32_t              first     = answers_.prompt(index).n_given;
    const auto                 n         = static_cast<int32_t>(frame.tokens.size());
    const auto                 is_in     = [&](int32_t position) { return position >= first && position < first + n; };
    Json                       committed = Json::array(), confidence = Json::array();
    std::map<int32_t, int32_t> written(frame.report.finished.begin(), frame.report.finished.end());
    written.insert(frame.report.committed.begin(), frame.report.committed.end()); // unless it is finished differently
    for (const auto & [position, id] : written) {
        if (is_in(position)) {
            committed.push_back(
                {{"position", position - first}, {"id", id}, {"text", utf8_repair(model_.vocab.piece(id))}});
        }
    }
    for (const auto & [position, value] : frame.report.confidence) {
        if (is_in(position)) {
            confidence.push_back(Json::array({position - first, value}));
        }
    }
    const bool diffusion = model_.info.traits.is_diffusion();
    Json       json      = {
                   {"type", "diffusion_frame"},
                   {"block", frame.report.block},
                   {"step", frame.report.step},
                   {"total", answers_.step_total(index)},
                   {"text", frame.text},
                   {"tokens", frame.tokens},
                   {"masked", diffusion ? std::count(frame.tokens.begin(), frame.tokens.end(), model_.info.traits.mask_id) : 0},
                   {"committed", std::move(committed)},
                   {"confidence", std::move(confidence)}};
    if (frame.report.step == 0) { // what everything is relative to
        const std::vector<int32_t> & given = answers_.prompt(index).tokens;
        const auto                   begin = given.begin() + first;
        std::vector<int32_t>         canvas(begin, given.end());
        const bool masked = diffusion && !model_.info.traits.writes_canvases(); // those begin as random tokens
        canvas.resize(masked ? frame.tokens.size() : 0, model_.info.traits.mask_id);
        json["prompt"] = pieces_json({given.begin(), begin});
        json["canvas"] = pieces_json(canvas);
    }
    if (frame.attention) {
        json["attention"] = attention_json(*frame.attention, answers_.request().attention.detail);
    }
    return json;
}

std::string CompletionStream::event(const AnswerEvent & event) {
    const CompletionRequest & request = answers_.request();
    const std::string &       text    = request.diffusing ? event.whole : event.added;
    std::string               out;
    if (is_llama()) {
        if (event.frame) {
            Json json = {{"index", event.index}, {"content", ""}, {"stop", false}};
            json.update(frame_json(event.index, *event.frame));
            out += sse_event(json);
        }
        if (event.ended) {
            out += sse_event(plain_json(head_, answers_, text));
        } else if (!text.empty()) {
            out += sse_event({{"index", event.index}, {"content", text}, {"stop", false}});
        }
        return out;
    }
    if (is_chat(request.api) && !begun_[event.index]) {
        begun_[event.index] = true;
        out += sse_event(chunk(event.index, {{"role", "assistant"}, {"content", ""}}, nullptr));
    }
    if (event.frame) {
        Json json = chunk(event.index, Json::object(), nullptr);
        json.update(frame_json(event.index, *event.frame));
        out += sse_event(json);
    }
    if (!text.empty()) {
        out += sse_event(chunk(event.index, {{"content", text}}, nullptr));
    }
    if (event.ended) {
        Json json       = chunk(event.index, Json::object(), answers_.answer(event.index).finish_reason.c_str());
        json["seed"]    = answers_.answer(event.index).seed;
        json["timings"] = timings_json(answers_.answer(event.index));
        out += sse_event(json);
    }
    return out;
}

std::string CompletionStream::end() const {
    if (is_llama()) {
        return "";
    }
    // known once everything has ended: a last piece without choices
    Json json       = head_json(head_, is_chat(answers_.request().api) ? "chat.completion.chunk" : "text_completion");
    Json more       = Json::object();
    json["choices"] = Json::array();
    if (answers_.request().include_usage) {
        more["usage"] = usage_json(answers_);
    }
    add_attention(more, answers_);
    json.update(more);
    return (more.empty() ? "" : sse_event(json)) + sse_done;
}

std::string CompletionStream::error(const ErrorBody & error) const {
    return sse_event(error_json(error)) + (is_llama() ? "" : sse_done);
}

} // namespace buoy::serve
