// Random damage to request bodies: each is read, or refused with a HttpError.

#include "buoy/error.h"
#include "serve/completion-request.h"
#include "serve/http.h"
#include "serve/service.h"
#include "support/cli.h"
#include "support/fuzz.h"
#include "support/service.h"

#include <doctest/doctest.h>

using namespace buoy;
using namespace buoy::test;
using nlohmann::json;

namespace {

const std::vector<std::string> seeds = {
    R"({"messages":[{"role":"user","content":"Where is the cat?"},{"role":"assistant","content":[{"type":"text","text":"x"}]}],"n":2,"stop":["a","b"]})",
    R"({"prompt":"Hello","max_tokens":8,"temperature":0.5,"top_p":0.9,"seed":1,"logit_bias":{"5":1.5},"stream":true,"stream_options":{"include_usage":true}})",
    R"({"prompt":[1,2,3],"diffusion":{"steps":4,"block_length":4,"algorithm":"entropy","threshold":0.5,"cache":"prefix","seed_canvas":[1,null,3],"pinned":{"0":"x"}}})",
    R"({"prompt":["a","b"],"suffix":"c","stream":true,"diffusion_frames":true,"attention":{"reduce":"heads","layers":"0","heads":[0],"steps":"0-"}})",
    R"({"input_prefix":"The cat ","input_suffix":" mat","n_predict":4,"record":{"id":"x","reduce":"heads"},"attention_edit":["drop keys=sinks"],"compare":true})",
};

const char * const values[] = {
    "null",       "true",   "-1",          "0",  "1e308", "1e400",    "18446744073709551616", "-9223372036854775809",
    "0.1",        "\"\"",   "\"\\ud800\"", "[]", "{}",    "[[[[]]]]", "\"[[9999999]]\"",      "\"\\u0000\"",
    "2147483648", "[null]", "{\"a\":{}}"};

// Replaces the value behind a random colon.
std::string with_value(const std::string & text, Random & random) {
    std::vector<size_t> colons;
    for (size_t at = text.find(':'); at != std::string::npos; at = text.find(':', at + 1)) {
        colons.push_back(at);
    }
    if (colons.empty()) {
        return text;
    }
    const size_t at  = colons[below(random, colons.size())] + 1;
    const size_t end = std::min(text.find_first_of(",}]", at), text.size());
    return text.substr(0, at) + values[below(random, std::size(values))] + text.substr(end);
}

std::string damaged(std::string text, Random & random) {
    const uint64_t n = 1 + below(random, 4);
    for (uint64_t i = 0; i < n && !text.empty(); i++) {
        const size_t at = below(random, text.size());
        switch (below(random, 6)) {
            case 0: text[at] = static_cast<char>(random()); break;
            case 1: text.erase(at, 1 + below(random, 8)); break;
            case 2: text.insert(at, text.substr(below(random, text.size()), below(random, 20))); break;
            default: text = with_value(text, random);
        }
    }
    return text;
}

} // namespace

TEST_CASE("serve: damaged bodies are read or refused") {
    const uint64_t n = setting("BUOY_FUZZ_BODIES", 1'000'000);
    Random         random(setting("BUOY_FUZZ_SEED", 1));
    for (const char * arch : {"llada", "llama"}) {
        const auto          model = load_model(tiny_chat_model(arch), {}, small_params().context);
        const serve::Loaded loaded(model, "m", small_params());
        size_t              n_read = 0, n_refused = 0;
        for (uint64_t i = 0; i < n / 2; i++) {
            serve::HttpRequest request;
            request.headers["content-type"] = "application/json";
            request.body                    = damaged(seeds[below(random, seeds.size())], random);
            const auto api                  = static_cast<serve::Api>(below(random, 5));
            try {
                const auto parsed = serve::parse_completion(serve::parse_body(request), api, loaded.served);
                n_read++;
                if (parsed.params.n_predict > 256 || parsed.answer_count() > 16) {
                    FAIL("beyond the limits: " << request.body);
                }
            } catch (const serve::HttpError & error) {
                n_refused++;
                if (error.body().status < 400 || error.body().message.empty()) {
                    FAIL("no reason: " << request.body);
                }
                serve::error_response(error.body());
            } catch (const Error & error) {
                FAIL("not a HttpError: " << error.what() << " of " << request.body);
            }
        }
        CHECK(n_read > n / 2000); // damage rarely leaves a body whole
        CHECK(n_refused > n / 20);
    }
}
