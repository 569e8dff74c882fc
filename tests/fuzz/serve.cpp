// Bodies of requests to the server: each is read, or refused with a HttpError.

#include "target.h"

#include "serve/completion-request.h"
#include "serve/http.h"
#include "serve/service.h"
#include "support/cli.h"
#include "support/service.h"

#include <algorithm>

namespace buoy::fuzz {

namespace {

constexpr size_t n_apis = 5;

// The first byte says which route is asked, and which kind of model is asked.
std::vector<std::string> request_seeds() {
    return {
        R"(0{"messages":[{"role":"user","content":"Where is the cat?"},{"role":"assistant","content":[{"type":"text","text":"x"}]}],"n":2,"stop":["a","b"]})",
        R"(6{"prompt":"Hello","max_tokens":8,"temperature":0.5,"top_p":0.9,"seed":1,"logit_bias":{"5":1.5},"stream":true,"stream_options":{"include_usage":true}})",
        R"(2{"prompt":[1,2,3],"diffusion":{"steps":4,"block_length":4,"algorithm":"entropy","threshold":0.5,"cache":"prefix","seed_canvas":[1,null,3],"pinned":{"0":"x"}}})",
        R"(1{"prompt":["a","b"],"suffix":"c","stream":true,"diffusion_frames":true,"attention":{"reduce":"heads","layers":"0","heads":[0],"steps":"0-"}})",
        R"(3{"input_prefix":"The cat ","input_suffix":" mat","n_predict":4,"record":{"id":"x","reduce":"heads"},"attention_edit":["drop keys=sinks"],"compare":true})",
    };
}

const serve::Loaded & loaded(bool is_diffusion) {
    const auto load = [](const char * arch) {
        return serve::Loaded(load_model(test::tiny_chat_model(arch), {}, test::small_params().context), "tiny",
                             test::small_params());
    };
    static const serve::Loaded diffusion      = load("llada");
    static const serve::Loaded autoregressive = load("llama");
    return is_diffusion ? diffusion : autoregressive;
}

void run_request(const std::string & input) {
    if (input.empty()) {
        return;
    }
    const size_t       kind = static_cast<unsigned char>(input[0]) - size_t{'0'};
    serve::HttpRequest request;
    request.headers["content-type"] = "application/json";
    request.body                    = input.substr(1);
    try {
        const auto parsed = serve::parse_completion(serve::parse_body(request), static_cast<serve::Api>(kind % n_apis),
                                                    loaded(kind / n_apis % 2 == 0).served);
        demand(parsed.params.n_predict <= 256 && parsed.answer_count() <= 16, "a request is within the limits");
    } catch (const serve::HttpError & error) {
        demand(error.body().status >= 400 && !error.body().message.empty(), "a refusal has a reason");
        serve::error_response(error.body());
    } catch (const Error &) {
        demand(false, "a request is refused with a HttpError");
    }
}

// Replaces the value behind a random colon.
void replace_value(std::string & text, Random & random) {
    static const char * const values[] = {"null",
                                          "true",
                                          "-1",
                                          "0",
                                          "1e308",
                                          "1e400",
                                          "18446744073709551616",
                                          "-9223372036854775809",
                                          "0.1",
                                          "\"\"",
                                          "\"\\ud800\"",
                                          "[]",
                                          "{}",
                                          "[[[[]]]]",
                                          "\"[[9999999]]\"",
                                          "\"\\u0000\"",
                                          "2147483648",
                                          "[null]",
                                          "{\"a\":{}}"};
    std::vector<size_t>       colons;
    for (size_t at = text.find(':'); at != std::string::npos; at = text.find(':', at + 1)) {
        colons.push_back(at + 1);
    }
    if (!colons.empty()) {
        const size_t at  = colons[below(random, colons.size())];
        const size_t end = std::min(text.find_first_of(",}]", at), text.size());
        text.replace(at, end - at, values[below(random, std::size(values))]);
    }
}

void mutate_request(std::string & text, Random & random) {
    if (text.empty()) {
        return;
    }
    const size_t at = below(random, text.size());
    switch (below(random, 6)) {
        case 0: text[at] = static_cast<char>(random()); break;
        case 1: text.erase(at, 1 + below(random, 8)); break;
        case 2: text.insert(at, text.substr(below(random, text.size()), below(random, 20))); break;
        default: replace_value(text, random);
    }
}

} // namespace

Target request_target() { return {"request", request_seeds, run_request, mutate_request}; }

} // namespace buoy::fuzz
