// Attention through the API: frames, recordings, edits, and the page's other questions.

#include "buoy/recording.h"
#include "support/cli.h"
#include "support/paths.h"
#include "support/service.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include <sys/resource.h>

using namespace buoy;
using namespace buoy::test;
using nlohmann::json;

namespace {

const json question = json::array({{{"role", "user"}, {"content", "Where is the cat?"}}});

serve::ServeParams recording_params() {
    serve::ServeParams params = small_params();
    params.runs_dir           = temp_dir();
    params.context.flash      = FlashAttention::off;
    return params;
}

bool same_recording(const std::string & one, const std::string & other) {
    const auto a = analysis::Recording::open(one), b = analysis::Recording::open(other);
    CHECK(a.n_steps() == b.n_steps());
    CHECK(a.steps() == b.steps());
    CHECK(a.layers() == b.layers());
    CHECK(a.pieces() == b.pieces());
    CHECK(a.unmask_step() == b.unmask_step());
    bool same = a.n_positions() == b.n_positions();
    for (const int32_t step : a.steps()) {
        for (const int32_t layer : a.layers()) {
            const analysis::Array x = a.read(Tap::pattern, step, layer), y = b.read(Tap::pattern, step, layer);
            same = same && x.shape == y.shape && x.values == y.values;
        }
    }
    return same;
}

} // namespace

TEST_CASE("serve: a recorded run is what --attn-dump writes") {
    for (const char * arch : {"llada", "sdar"}) {
        CAPTURE(std::string(arch));
        const std::string        path   = tiny_chat_model(arch);
        const serve::ServeParams params = recording_params();
        TestService              service(path, params);
        const std::string        file = temp_dir() + "/run.npz";
        CHECK(cli({"-m", path, "-p", "Where is the cat?", "-n", "16", "-s", "0", "-c", "256", "-fa", "off",
                   "--attn-dump", file})
                  .code == 0);
        const json answer = body_of(service.post("/v1/chat/completions", {{"messages", question}, {"record", true}}));
        const std::string id  = answer["run"]["id"];
        const auto        run = service.get("/v1/runs/" + id);
        CHECK(run.status == 200);
        CHECK(run.file == params.runs_dir + "/" + id + ".npz");
        CHECK(same_recording(run.file, file));
        const json runs = body_of(service.get("/v1/runs"));
        REQUIRE(runs["data"].size() == 1);
        CHECK(runs["data"][0]["id"] == id);
        CHECK(runs["data"][0]["bytes"] == std::filesystem::file_size(run.file));
        const auto report = service.get("/v1/runs/" + id + "/report");
        CHECK(report.status == 200);
        CHECK(std::filesystem::file_size(report.file) > 10000);
        CHECK(service.send("DELETE", "/v1/runs/" + id).status == 200);
        CHECK(service.get("/v1/runs/" + id).status == 404);
        CHECK(body_of(service.get("/v1/runs"))["data"].empty());
        CHECK(std::filesystem::is_empty(params.runs_dir));
    }
}

TEST_CASE("serve: names of runs lead nowhere else, and are given once") {
    const serve::ServeParams params = recording_params();
    TestService              service(tiny_chat_model("llada"), params);
    const json body = {{"messages", question}, {"max_tokens", 4}, {"record", {{"id", "mine"}, {"reduce", "received"}}}};
    CHECK(service.post("/v1/chat/completions", body).status == 200);
    CHECK(service.post("/v1/chat/completions", body).status == 409);
    std::ofstream(params.runs_dir + "/../secret.npz") << "x";
    for (const char * path : {"/v1/runs/..", "/v1/runs/../secret", "/v1/runs/../../etc/passwd", "/v1/runs/.",
                              "/v1/runs/mine.npz", "/v1/runs/mine/../mine", "/v1/runs//report"}) {
        CHECK(service.get(path).status == 404);
        CHECK(service.send("DELETE", path).status == 404);
    }
    for (const char * name : {"../x", "", "a/b", "a b", ".hidden"}) {
        CHECK(service.post("/v1/chat/completions", {{"messages", question}, {"record", name}}).status == 400);
    }
    for (const json & record :
         {json{{"layers", "99"}}, json{{"reduce", "magic"}}, json{{"colour", 1}}, json{{"steps", {-1}}}, json(7)}) {
        CHECK(service.post("/v1/chat/completions", {{"messages", question}, {"record", record}}).status == 400);
    }
    CHECK(body_of(service.get("/v1/runs"))["data"].size() == 1);
}

TEST_CASE("serve: recordings have a limit, and a disk that fails ends one request") {
    serve::ServeParams params = recording_params();
    params.runs_max_size      = 1000;
    TestService small(tiny_chat_model("llada"), params);
    const auto  refused = small.post("/v1/chat/completions", {{"messages", question}, {"record", true}});
    CHECK(refused.status == 400);
    CHECK(contains(refused.body, "--runs-max-size"));
    CHECK(std::filesystem::is_empty(params.runs_dir));

    serve::ServeParams gone = recording_params();
    gone.runs_dir += "/missing";
    TestService broken(tiny_chat_model("llada"), gone);
    CHECK(broken.post("/v1/chat/completions", {{"messages", question}, {"record", true}}).status >= 400);
    CHECK(broken.post("/v1/chat/completions", {{"messages", question}}).status == 200);

    const serve::ServeParams full = recording_params();
    TestService              crowded(tiny_chat_model("llada"), full);
    rlimit                   kept = {};
    REQUIRE(getrlimit(RLIMIT_FSIZE, &kept) == 0);
    rlimit little   = kept;
    little.rlim_cur = 200;
    std::signal(SIGXFSZ, SIG_IGN);
    REQUIRE(setrlimit(RLIMIT_FSIZE, &little) == 0);
    const int status = crowded.post("/v1/chat/completions", {{"messages", question}, {"record", true}}).status;
    REQUIRE(setrlimit(RLIMIT_FSIZE, &kept) == 0);
    CHECK(status >= 400);
    for (int i = 0; i < 400 && !std::filesystem::is_empty(full.runs_dir); i++) { // the scheduler's thread tidies up
        std::this_thread::sleep_for(std::chrono::milliseconds(25));
    }
    CHECK(std::filesystem::is_empty(full.runs_dir));
    CHECK(crowded.post("/v1/chat/completions", {{"messages", question}, {"record", true}}).status == 200);

    TestService none(tiny_chat_model("llada"), small_params());
    CHECK(contains(none.post("/v1/chat/completions", {{"messages", question}, {"record", true}}).body, "--runs-dir"));
}

TEST_CASE("serve: frames tell the attention that a recording has") {
    const serve::ServeParams params = recording_params();
    TestService              service(tiny_chat_model("llada"), params);
    json                     body = {{"messages", question},
                                     {"stream", true},
                                     {"diffusion_frames", true},
                                     {"attention", {{"reduce", "heads"}}},
                                     {"record", {{"id", "r"}, {"reduce", "received"}, {"type", "f32"}}}};
    std::vector<json>        frames;
    for (const json & chunk : chunks_of(service.post("/v1/chat/completions", body))) {
        if (chunk.contains("attention")) {
            frames.push_back(chunk["attention"]);
        }
    }
    const auto recording = analysis::Recording::open(params.runs_dir + "/r.npz");
    REQUIRE(frames.size() == recording.n_steps());
    for (size_t step = 0; step < frames.size(); step++) {
        const analysis::Array expected = recording.read(Tap::pattern, static_cast<int32_t>(step), 0); // [H, K]
        const json &          layer    = frames[step]["layers"][0];
        const size_t          n_keys   = recording.n_positions();
        REQUIRE(layer["heads"].size() * n_keys == expected.values.size());
        double sum = 0.0;
        for (size_t i = 0; i < expected.values.size(); i++) {
            CHECK(std::abs(layer["heads"][i / n_keys][i % n_keys].get<double>() -
                           static_cast<double>(expected.values[i])) < 1e-5);
        }
        for (const json & value : frames[step]["received"]) {
            sum += value.get<double>();
        }
        CHECK(std::abs(sum - 1.0) < 1e-3); // each row of a pattern sums to one, rounded to five digits
    }
    body["attention"] = {{"layers", "7"}};
    body.erase("record");
    CHECK(service.post("/v1/chat/completions", body).status == 400);
    body["attention"] = {{"steps", "0,2"}};
    size_t n          = 0;
    for (const json & chunk : chunks_of(service.post("/v1/chat/completions", body))) {
        n += chunk.contains("attention") ? 1 : 0;
    }
    CHECK(n == 2);
    body.erase("diffusion_frames");
    CHECK(service.post("/v1/chat/completions", body).status == 400);
}

TEST_CASE("serve: an edit changes the answer as the program's does, and a comparison tells both") {
    const std::string path = tiny_chat_model("llada");
    TestService       service(path, recording_params());
    const json program = cli_json({"-m", path, "-p", "Where is the cat?", "-n", "16", "-s", "0", "-c", "256", "-fa",
                                   "off", "--attn-edit", "bias keys=0-3 +8", "--attn-edit-compare"});
    const json body    = {{"messages", question}, {"attention_edit", {"bias keys=0-3 +8"}}, {"compare", true}};
    const json answer  = body_of(service.post("/v1/chat/completions", body));
    CHECK(answer["choices"][0]["message"]["content"] == program["text"]);
    CHECK(answer["edit"] == program["edit"]);
    json streamed      = body;
    streamed["stream"] = true;
    const auto chunks  = chunks_of(service.post("/v1/chat/completions", streamed));
    CHECK(chunks.back()["edit"] == program["edit"]);
    for (const json & wrong :
         {json{"drop it"}, json{"drop keys=nowhere"}, json{"drop keys=0 layers=9"}, json{"drop keys=all"}, json(5)}) {
        CAPTURE(wrong.dump());
        CHECK(service.post("/v1/chat/completions", {{"messages", question}, {"attention_edit", wrong}}).status == 400);
    }
    CHECK(service.post("/v1/chat/completions", {{"messages", question}, {"compare", true}}).status == 400);
    CHECK(service.post("/v1/chat/completions", {{"messages", question}, {"record", true}, {"n", 2}}).status == 400);
}

TEST_CASE("serve: candidates are the model's probabilities") {
    for (const char * arch : {"llada", "dream"}) {
        CAPTURE(std::string(arch));
        const std::string          path = tiny_model(arch);
        TestService                service(path, small_params());
        const auto                 context  = load_context({path}, {}, small_params().context);
        const std::vector<int32_t> tokens   = {10, 20, 30, context->info().traits.mask_id, 50};
        const size_t               position = 3;
        ForwardRequest             pass;
        pass.tokens                     = tokens;
        pass.rows                       = {context->info().traits.shift ? 2 : 3};
        const std::vector<float> logits = context->forward(pass).logits;
        double                   sum    = 0.0;
        for (const float value : logits) {
            sum += std::exp(static_cast<double>(value));
        }
        const json answer =
            body_of(service.post("/v1/candidates", {{"tokens", tokens}, {"position", position}, {"top", 4}}));
        REQUIRE(answer["candidates"].size() == 4);
        double last = 1.0;
        for (const json & one : answer["candidates"]) {
            const double expected = std::exp(static_cast<double>(logits[one["id"].get<size_t>()])) / sum;
            CHECK(one["probability"].get<double>() == doctest::Approx(expected).epsilon(1e-5));
            CHECK(one["probability"].get<double>() <= last);
            last = one["probability"];
        }
        for (const json & wrong :
             {json::object(), json{{"tokens", {1}}}, json{{"tokens", {1}}, {"position", 1}},
              json{{"tokens", {-1}}, {"position", 0}}, json{{"tokens", json::array()}, {"position", 0}},
              json{{"tokens", std::vector<int>(300, 1)}, {"position", 0}}}) {
            CHECK(service.post("/v1/candidates", wrong).status == 400);
        }
    }
}

TEST_CASE("serve: the page is one file that loads nothing, frames become a GIF") {
    TestService service(tiny_model("llada"), small_params());
    const auto  page = service.get("/");
    CHECK(page.content_type == "text/html; charset=utf-8");
    CHECK(page.body.starts_with("<!doctype html>"));
    CHECK(contains(page.body, "script-src 'sha256-"));
    CHECK(!contains(page.body, "http://"));
    CHECK(!contains(page.body, "https://"));
    CHECK(!contains(page.body, "{{"));
    const json frames = {{{"tokens", {{{"text", "a"}}, {{"state", "masked"}}}}},
                         {{"tokens", {{{"text", "a"}}, {{"text", "\x1b[31m<b>"}, {"state", "fresh"}}}}}};
    const auto gif    = service.post("/v1/screencast", {{"frames", frames}});
    CHECK(gif.content_type == "image/gif");
    CHECK(gif.body.starts_with("GIF89a"));
    for (const json & wrong :
         {json::object(), json{{"frames", json::array()}}, json{{"frames", {5}}},
          json{{"frames", {{{"tokens", {{{"state", "odd"}}}}}}}}, json{{"frames", frames}, {"milliseconds", 0}}}) {
        CHECK(service.post("/v1/screencast", wrong).status == 400);
    }
}
