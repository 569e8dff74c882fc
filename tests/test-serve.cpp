// The routes without sockets: answers, streams, errors.

#include "buoy/text-stream.h"
#include "support/cli.h"
#include "support/service.h"
#include "support/tiny-gemma.h"

#include <doctest/doctest.h>

#include <set>

using namespace buoy;
using namespace buoy::test;
using nlohmann::json;

namespace {

const json question = json::array({{{"role", "user"}, {"content", "Where is the cat?"}}});

std::string chat_text(const serve::HttpResponse & response) {
    return body_of(response)["choices"][0]["message"]["content"];
}

std::string streamed_text(const std::vector<json> & chunks, size_t index = 0) {
    std::string text;
    for (const json & chunk : chunks) {
        for (const json & choice : chunk.value("choices", json::array())) {
            if (choice["index"] == index && choice.contains("delta")) {
                text += choice["delta"].value("content", "");
            } else if (choice["index"] == index) {
                text += choice.value("text", "");
            }
        }
    }
    return text;
}

} // namespace

TEST_CASE("serve: a chat is answered as the program answers it") {
    for (const char * arch : {"llada", "dream", "sdar", "llama"}) {
        CAPTURE(std::string(arch));
        const std::string path = tiny_chat_model(arch);
        TestService       service(path, small_params());
        const json program  = cli_json({"-m", path, "-p", "Where is the cat?", "-n", "16", "-s", "0", "-c", "256"});
        const auto response = service.post("/v1/chat/completions", {{"messages", question}});
        CHECK(response.status == 200);
        const json body = body_of(response);
        CHECK(body["choices"][0]["message"]["content"] == program["text"]);
        CHECK(body["usage"]["prompt_tokens"] == program["prompt_tokens"].size());
        CHECK(body["usage"]["completion_tokens"] == program["tokens"].size());
        CHECK(body["choices"][0]["finish_reason"] == (program["ended"] ? "stop" : "length"));
        CHECK(body["object"] == "chat.completion");
    }
}

TEST_CASE("serve: streamed text adds up to the answer, and is never taken back") {
    for (const char * arch : {"llada", "dream", "sdar", "llama"}) {
        CAPTURE(std::string(arch));
        TestService service(tiny_chat_model(arch), small_params());
        for (const json & settings : {json::object(), json{{"temperature", 1.0}, {"seed", 7}},
                                      json{{"max_tokens", 40}, {"temperature", 0.7}, {"seed", 3}}}) {
            json body               = settings;
            body["messages"]        = question;
            const std::string whole = chat_text(service.post("/v1/chat/completions", body));
            body["stream"]          = true;
            body["stream_options"]  = {{"include_usage", true}};
            const auto response     = service.post("/v1/chat/completions", body);
            CHECK(response.content_type == "text/event-stream");
            const auto events = events_of(response);
            REQUIRE(!events.empty());
            CHECK(events.back() == "[DONE]");
            const auto chunks = chunks_of(service.post("/v1/chat/completions", body));
            CHECK(streamed_text(chunks) == whole);
            CHECK(chunks[0]["choices"][0]["delta"]["role"] == "assistant");
            CHECK(chunks.back()["choices"].empty());
            CHECK(chunks.back()["usage"]["completion_tokens"].get<int>() > 0);
            CHECK(chunks[0]["usage"].is_null());
        }
    }
}

TEST_CASE("serve: a diffusing stream replaces its text, and frames replay to it") {
    TestService service(tiny_chat_model("llada"), small_params());
    const json  body = {{"messages", question}, {"stream", true}, {"diffusing", true}};
    std::string last;
    for (const json & chunk : chunks_of(service.post("/v1/chat/completions", body))) {
        last = chunk["choices"][0]["delta"].value("content", last);
    }
    json plain      = body;
    plain["stream"] = plain["diffusing"] = false;
    const std::string whole              = chat_text(service.post("/v1/chat/completions", plain));
    CHECK(last == whole);

    json framed                = plain;
    framed["stream"]           = true;
    framed["diffusion_frames"] = true;
    std::map<int, std::string> written;
    int                        n_frames = 0;
    const auto                 chunks   = chunks_of(service.post("/v1/chat/completions", framed));
    for (const json & chunk : chunks) {
        if (chunk.value("type", "") != "diffusion_frame") {
            continue;
        }
        CHECK(chunk["step"] == n_frames);
        CHECK(chunk["total"] == 16);
        CHECK(chunk["masked"] == 15 - n_frames);
        n_frames++;
        for (const json & one : chunk["committed"]) {
            CHECK(written.count(one["position"]) == 0);
            CHECK(chunk["tokens"][one["position"].get<size_t>()] == one["id"]);
        }
        for (const json & one : chunk["confidence"]) {
            CHECK(one[1].get<double>() <= 1.0);
        }
    }
    CHECK(n_frames == 16);
    CHECK(streamed_text(chunks) == whole);
}

TEST_CASE("serve: several answers, and several prompts") {
    TestService service(tiny_chat_model("llada"), small_params());
    const json  body = {{"messages", question}, {"n", 3}, {"temperature", 1.0}, {"seed", 5}};
    const json  all  = body_of(service.post("/v1/chat/completions", body));
    REQUIRE(all["choices"].size() == 3);
    for (int i = 0; i < 3; i++) { // each is what its seed gives alone
        json one    = body;
        one["n"]    = 1;
        one["seed"] = 5 + i;
        CHECK(all["choices"][i]["index"] == i);
        CHECK(all["choices"][i]["message"]["content"] == chat_text(service.post("/v1/chat/completions", one)));
    }
    json streamed      = body;
    streamed["stream"] = true;
    const auto chunks  = chunks_of(service.post("/v1/chat/completions", streamed));
    for (size_t i = 0; i < 3; i++) {
        CHECK(streamed_text(chunks, i) == all["choices"][i]["message"]["content"]);
    }
    const json texts = body_of(service.post("/v1/completions", {{"prompt", {"one", "two"}}}));
    REQUIRE(texts["choices"].size() == 2);
    CHECK(texts["object"] == "text_completion");
    for (int i = 0; i < 2; i++) {
        const json one = body_of(service.post("/v1/completions", {{"prompt", i == 0 ? "one" : "two"}}));
        CHECK(texts["choices"][i]["text"] == one["choices"][0]["text"]);
    }
}

TEST_CASE("serve: a stop text ends the answer before it") {
    for (const char * arch : {"llada", "sdar", "llama"}) {
        CAPTURE(std::string(arch));
        TestService       service(tiny_model(arch), small_params());
        const json        plain = {{"prompt", "abc"}, {"max_tokens", 24}, {"temperature", 1.0}, {"seed", 2}};
        const std::string whole = body_of(service.post("/v1/completions", plain))["choices"][0]["text"];
        // characters of the middle, whole ones
        size_t first = whole.size() / 2;
        while (first < whole.size() && (static_cast<unsigned char>(whole[first]) & 0xC0) == 0x80) {
            first++;
        }
        size_t end = first + 2;
        while (end < whole.size() && (static_cast<unsigned char>(whole[end]) & 0xC0) == 0x80) {
            end++;
        }
        const std::string stop = whole.substr(first, end - first);
        json              body = plain;
        body["stop"]           = {"never there", stop};
        const json answer      = body_of(service.post("/v1/completions", body));
        CHECK(answer["choices"][0]["text"] == whole.substr(0, whole.find(stop)));
        CHECK(answer["choices"][0]["finish_reason"] == "stop");
        body["stream"] = true;
        CHECK(streamed_text(chunks_of(service.post("/v1/completions", body))) == whole.substr(0, whole.find(stop)));
    }
}

TEST_CASE("serve: a gap is filled between what is given") {
    const std::string path = tiny_model("llada");
    TestService       service(path, small_params());
    const json program = cli_json({"-m", path, "--infill", "-p", "The cat [[6]] the mat.", "-s", "0", "-c", "256"});
    const json infill  = body_of(
         service.post("/infill", {{"input_prefix", "The cat "}, {"input_suffix", " the mat."}, {"n_predict", 6}}));
    CHECK("The cat " + infill["content"].get<std::string>() + " the mat." == program["text"]);
    CHECK(infill["stop"] == true);
    const json fim = body_of(
        service.post("/v1/fim/completions", {{"prompt", "The cat "}, {"suffix", " the mat."}, {"max_tokens", 6}}));
    CHECK(fim["choices"][0]["message"]["content"] == infill["content"]);
    CHECK(fim["usage"]["completion_tokens"] == 6);
    // brackets that a client sends are text
    const json brackets =
        body_of(service.post("/infill", {{"input_prefix", "a[[3]]"}, {"input_suffix", "b"}, {"n_predict", 2}}));
    CHECK(brackets["tokens_predicted"] == 2);
    const auto refused = TestService(tiny_model("llama"), small_params()).post("/infill", {{"input_prefix", "a"}});
    CHECK(refused.status == 400);
    CHECK(contains(refused.body, "autoregressive"));
}

TEST_CASE("serve: parts of an answer can be given") {
    TestService       service(tiny_model("llada"), small_params());
    const json        body   = {{"prompt", "abc"},
                                {"diffusion", {{"seed_canvas", "Name: [[4]], age: [[2]]."}}},
                                {"stream", true},
                                {"diffusion_frames", true}};
    const auto        chunks = chunks_of(service.post("/v1/completions", body));
    const std::string text   = streamed_text(chunks);
    CHECK(text.starts_with("Name:")); // the gap writes the space before it
    CHECK(contains(text, ", age:"));
    CHECK(text.ends_with("."));
    json whole = body; // only what was written counts as an answer's tokens
    whole.erase("stream");
    whole.erase("diffusion_frames");
    CHECK(body_of(service.post("/v1/completions", whole))["usage"]["completion_tokens"] == 6);
    const json                 pinned = {{"prompt", "abc"},
                                         {"max_tokens", 8},
                                         {"diffusion", {{"pinned", {{"2", 65}, {"3", "xy"}}}}},
                                         {"stream", true},
                                         {"diffusion_frames", true}};
    const std::vector<int32_t> xy     = Vocab::load(tiny_model("llada")).encode("xy", false, false);
    for (const json & chunk : chunks_of(service.post("/v1/completions", pinned))) {
        if (chunk.contains("tokens")) {
            CHECK(chunk["tokens"].size() == 8);
            CHECK(chunk["tokens"][2] == 65);
            CHECK(chunk["tokens"][3] == xy[0]);
        }
    }
}

TEST_CASE("serve: what is wrong about a request is said in one error, with its field") {
    TestService service(tiny_chat_model("llada"), small_params());
    struct Case {
        const char * path;
        json         body;
        const char * param; // "": none
        const char * says;
    };
    const auto chat = [&](const json & more) {
        json body = {{"messages", question}};
        body.update(more);
        return body;
    };
    const Case cases[] = {
        {"/v1/chat/completions", json::object(), "messages", "missing"},
        {"/v1/chat/completions", json::array(), "", "JSON object"},
        {"/v1/chat/completions", {{"messages", json::array()}}, "messages", "at least one"},
        {"/v1/chat/completions",
         {{"messages", {{{"role", "wizard"}, {"content", "x"}}}}},
         "messages[0].role",
         "wizard"},
        {"/v1/chat/completions", {{"messages", {{{"role", "user"}, {"content", 7}}}}}, "messages[0].content", "string"},
        {"/v1/chat/completions", chat({{"max_tokens", -7}}), "max_tokens", "-7"},
        {"/v1/chat/completions", chat({{"max_tokens", 1.5}}), "max_tokens", "whole number"},
        {"/v1/chat/completions", chat({{"max_tokens", "many"}}), "max_tokens", "many"},
        {"/v1/chat/completions", chat({{"temperature", -1}}), "temperature", "from 0"},
        {"/v1/chat/completions", chat({{"temperature", 1e300}}), "temperature", "1e+300"},
        {"/v1/chat/completions", chat({{"top_p", 2}}), "top_p", "from 0 to 1"},
        {"/v1/chat/completions", chat({{"seed", 1e30}}), "seed", "whole number"},
        {"/v1/chat/completions", chat({{"n", 0}}), "n", "from 1"},
        {"/v1/chat/completions", chat({{"n", 17}}), "n", "16"},
        {"/v1/chat/completions", chat({{"stop", 5}}), "stop", "string"},
        {"/v1/chat/completions", chat({{"stream", "yes"}}), "stream", "true or false"},
        {"/v1/chat/completions", chat({{"diffusing", true}}), "diffusing", "stream"},
        {"/v1/chat/completions", chat({{"logit_bias", {{"x", 1}}}}), "logit_bias", "not a token"},
        {"/v1/chat/completions", chat({{"logit_bias", {{"99999999", 1}}}}), "logit_bias", "not a token"},
        {"/v1/chat/completions", chat({{"response_format", {{"type", "json_object"}}}}), "response_format",
         "cannot force JSON"},
        {"/v1/chat/completions", chat({{"tools", {{{"type", "function"}}}}}), "tools", "not supported"},
        {"/v1/chat/completions", chat({{"presence_penalty", 1}}), "presence_penalty", "not supported"},
        {"/v1/chat/completions", chat({{"logprobs", true}}), "logprobs", "not supported"},
        {"/v1/chat/completions", chat({{"diffusion", 5}}), "diffusion", "JSON object"},
        {"/v1/chat/completions", chat({{"diffusion", {{"stepz", 5}}}}), "diffusion.stepz", "the settings are"},
        {"/v1/chat/completions", chat({{"diffusion", {{"steps", -5}}}}), "diffusion.steps", "-5"},
        {"/v1/chat/completions", chat({{"diffusion", {{"steps", 1000000}}}}), "diffusion.steps", "4096"},
        {"/v1/chat/completions", chat({{"diffusion", {{"algorithm", "magic"}}}}), "diffusion.algorithm", "magic"},
        {"/v1/chat/completions", chat({{"diffusion", {{"cache", "big"}}}}), "diffusion.cache", "prefix"},
        {"/v1/chat/completions", chat({{"diffusion", {{"threshold", 2}}}}), "", "threshold"},
        {"/v1/chat/completions", chat({{"diffusion", {{"seed_canvas", "no gap"}}}}), "diffusion.seed_canvas", "gap"},
        {"/v1/chat/completions", chat({{"diffusion", {{"seed_canvas", {1, 2}}}}}), "diffusion.seed_canvas",
         "nothing to write"},
        {"/v1/chat/completions", chat({{"diffusion", {{"pinned", {{"-1", 5}}}}}}), "diffusion.pinned", "-1"},
        {"/v1/completions", json::object(), "prompt", "missing"},
        {"/v1/completions", {{"prompt", {1, -5}}}, "prompt", "not a token"},
        {"/v1/completions", {{"prompt", std::string(5000, 'x')}}, "prompt", "no room"},
        {"/v1/completions", {{"prompt", "a"}, {"echo", true}}, "echo", "not supported"},
        {"/v1/completions", {{"prompt", "a"}, {"best_of", 3}}, "best_of", "not supported"},
        {"/tokenize", json::object(), "content", "missing"},
        {"/detokenize", {{"tokens", {-1}}}, "tokens", "not a token"},
        {"/apply-template", json::object(), "messages", "missing"},
    };
    for (const Case & one : cases) {
        CAPTURE(one.body.dump());
        const auto response = service.post(one.path, one.body);
        CHECK(response.status == 400);
        const json error = body_of(response)["error"];
        CAPTURE(error.dump());
        CHECK(error["type"] == "invalid_request_error");
        CHECK(contains(error["message"].get<std::string>(), one.says));
        CHECK(error["param"] == (*one.param != '\0' ? json(one.param) : json(nullptr)));
    }
    CHECK(body_of(service.post("/v1/completions", {{"prompt", std::string(5000, 'x')}}))["error"]["code"] ==
          "context_length_exceeded");
    CHECK(service.post("/v1/chat/completions", chat({{"model", "another"}})).status == 404);
    CHECK(service.get("/nowhere").status == 404);
    const auto method = service.get("/v1/chat/completions");
    CHECK(method.status == 405);
    CHECK(contains(method.headers[0].second, "POST"));
    for (const char * text : {"", "{", "{\"a\": 1e400}", "nul", "\xff\xfe"}) {
        CHECK(service.send("POST", "/v1/chat/completions", text).status == 400);
    }
    CHECK(service.send("POST", "/v1/chat/completions", std::string(100000, '[')).status == 400);
    CHECK(service.send("POST", "/v1/chat/completions", "{}", "text/plain").status == 415);
    CHECK(service.send("POST", "/v1/chat/completions", "{}", "").status == 415);
}

TEST_CASE("serve: the model is described, and text becomes tokens and text again") {
    TestService service(tiny_chat_model("llada"), small_params());
    CHECK(body_of(service.get("/health"))["status"] == "ok");
    const json models = body_of(service.get("/v1/models"));
    REQUIRE(models["data"].size() == 1);
    CHECK(models["data"][0]["object"] == "model");
    CHECK(service.post("/v1/chat/completions", {{"messages", question}, {"model", models["data"][0]["id"]}}).status ==
          200);
    CHECK(body_of(service.get("/props"))["total_slots"] == 3);
    CHECK(body_of(service.get("/slots")).size() == 3);
    CHECK(contains(service.get("/metrics").body, "llamacpp:tokens_predicted_total 16\n"));
    const json tokens = body_of(service.post("/tokenize", {{"content", "a cat"}}));
    CHECK(tokens["tokens"].size() == 5); // bytes
    CHECK(body_of(service.post("/detokenize", tokens))["content"] == "a cat");
    CHECK(body_of(service.post("/apply-template", {{"messages", question}}))["prompt"] ==
          "<|im_start|>user\nWhere is the cat?<|im_end|>\n<|im_start|>assistant\n");
}

TEST_CASE("serve: requests choose among several models by name") {
    const serve::ServeParams params = small_params();
    TestService              service(tiny_chat_model("llada"), params);
    service.service.serve(load_model(tiny_chat_model("llama"), {}, params.context));
    service.service.serve(load_model(tiny_chat_model("llada"), {}, params.context)); // the same once more: another name
    const json models = body_of(service.get("/v1/models"))["data"];
    REQUIRE(models.size() == 3);
    const std::string first = models[0]["id"], second = models[1]["id"], third = models[2]["id"];
    CHECK(first != second);
    CHECK(first != third);

    const auto answer_of = [&](const json & model) {
        return body_of(service.post("/v1/chat/completions", {{"messages", question}, {"model", model}}));
    };
    TestService alone(tiny_chat_model("llama"), params);
    const json  expected = body_of(alone.post("/v1/chat/completions", {{"messages", question}}));
    CHECK(answer_of(second)["choices"] == expected["choices"]);
    CHECK(answer_of(second)["model"] == second);
    CHECK(answer_of(nullptr)["model"] == first);
    CHECK(answer_of("default")["model"] == first);
    CHECK(answer_of(third)["choices"] == answer_of(first)["choices"]);
    CHECK(answer_of("other")["error"]["code"] == "model_not_found");
    CHECK(contains(std::string(answer_of("other")["error"]["message"]), second));

    CHECK(body_of(service.get("/slots")).size() == 9);
    CHECK(body_of(service.get("/slots"))[3]["model"] == second);
    serve::HttpRequest props;
    props.method         = "GET";
    props.path           = "/props";
    props.query["model"] = second;
    CHECK(body_of(service.service.handle(props))["model"]["diffusion"] == false);
    props.query["model"] = "other";
    CHECK(service.service.handle(props).status == 404);
    for (const char * path : {"/tokenize", "/detokenize", "/apply-template", "/v1/candidates"}) {
        CHECK(body_of(service.post(path, {{"model", "other"}}))["error"]["code"] == "model_not_found");
    }
    // five answers of 16 tokens, and those of three models are added up
    CHECK(contains(service.get("/metrics").body, "llamacpp:tokens_predicted_total 96\n"));
}

TEST_CASE("serve: while the model loads, requests are asked to come again") {
    serve::Service     service(small_params());
    serve::HttpRequest request;
    request.method      = "GET";
    request.path        = "/health";
    const auto response = service.handle(request);
    CHECK(response.status == 503);
    REQUIRE(response.headers.size() == 1);
    CHECK(response.headers[0].first == "Retry-After");
}

TEST_CASE("serve: a model of libllama's answers one request at a time") {
    serve::ServeParams       params = small_params();
    std::vector<std::string> said;
    params.log = [&](LogLevel level, const std::string & text) {
        if (level == LogLevel::notice) {
            said.push_back(text);
        }
    };
    const std::string path = tiny_gemma();
    TestService       service(path, params);
    CHECK(body_of(service.get("/slots")).size() == 1);
    REQUIRE(said.size() == 1);
    CHECK(contains(said[0], "one answer at a time"));
    const json program = cli_json({"-m", path, "--raw", "-p", "A cat", "-n", "16", "-s", "0", "-c", "256"});
    const json answers = body_of(service.post("/v1/completions", {{"prompt", {"A cat", "A dog", "A cat"}}}));
    REQUIRE(answers["choices"].size() == 3);
    CHECK(answers["choices"][0]["text"] == program["text"]);
    CHECK(answers["choices"][2]["text"] == program["text"]);
}
