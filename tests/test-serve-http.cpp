// The server over sockets, and the program: what clients do to it.

#include "buoy/error.h"
#include "buoy/serve.h"
#include "serve/gate.h"
#include "support/cli.h"
#include "support/hf-dir.h"
#include "support/paths.h"
#include "support/service.h"

#include <cpp-httplib/httplib.h>
#include <doctest/doctest.h>

#include <csignal>
#include <fstream>

using namespace buoy;
using namespace buoy::test;
using nlohmann::json;

namespace {

const json question = json::array({{{"role", "user"}, {"content", "Where is the cat?"}}});

struct TestServer {
    explicit TestServer(serve::ServeParams params = small_params(), const char * arch = "llada")
        : params_(with_port(std::move(params))), server(params_), client("127.0.0.1", server.port()) {
        server.serve(load_model(tiny_chat_model(arch), {}, params_.context));
    }

    httplib::Result post(const std::string & path, const json & body) {
        return client.Post(path, body.dump(), "application/json");
    }

    // A request as bytes, and all that comes back.
    std::string raw(const std::string & bytes) const {
        const int fd = open_socket();
        write_all(fd, bytes);
        std::string out;
        char        buffer[4096];
        for (ssize_t n = 0; (n = recv(fd, buffer, sizeof(buffer), 0)) > 0;) {
            out.append(buffer, static_cast<size_t>(n));
        }
        close(fd);
        return out;
    }

    int open_socket() const {
        const int   fd      = socket(AF_INET, SOCK_STREAM, 0);
        sockaddr_in address = {};
        address.sin_family  = AF_INET;
        address.sin_port    = htons(static_cast<uint16_t>(server.port()));
        inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
        REQUIRE(connect(fd, reinterpret_cast<const sockaddr *>(&address), sizeof(address)) == 0);
        return fd;
    }

    static void write_all(int fd, const std::string & bytes) {
        REQUIRE(send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()));
    }

    static serve::ServeParams with_port(serve::ServeParams params) {
        params.port = 0;
        return params;
    }

    size_t n_running() {
        size_t n = 0;
        for (const json & slot : json::parse(client.Get("/slots")->body)) {
            n += slot["is_processing"] ? 1 : 0;
        }
        return n;
    }

    bool await_running(size_t n) {
        for (int i = 0; i < 20000; i++) {
            if (n_running() == n) {
                return true;
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
        return false;
    }

    serve::ServeParams params_;
    serve::Server      server;
    httplib::Client    client;
};

std::string post_bytes(const std::string & path, const json & body) {
    const std::string text = body.dump();
    return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: " +
           std::to_string(text.size()) + "\r\nConnection: close\r\n\r\n" + text;
}

// Long enough to be there when something happens to it.
json long_request(bool stream) {
    return {{"messages", question}, {"max_tokens", 200}, {"stream", stream}, {"ignore_eos", true}};
}

} // namespace

TEST_CASE("http: answers and streams arrive, connections are used again") {
    TestServer server;
    server.client.set_keep_alive(true);
    for (int i = 0; i < 3; i++) {
        const auto whole = server.post("/v1/chat/completions", {{"messages", question}});
        REQUIRE(whole);
        CHECK(whole->status == 200);
        CHECK(whole->get_header_value("Content-Type") == "application/json");
        const auto streamed = server.post("/v1/chat/completions", {{"messages", question}, {"stream", true}});
        REQUIRE(streamed);
        CHECK(streamed->get_header_value("Content-Type") == "text/event-stream");
        CHECK(streamed->body.ends_with("data: [DONE]\n\n"));
    }
    CHECK(server.client.Head("/health")->status == 200);
}

TEST_CASE("http: what is no HTTP, or too much of it, is refused") {
    serve::ServeParams params = small_params();
    params.limits.body_bytes  = 2000;
    TestServer server(params);
    for (const std::string & bytes : std::vector<std::string>{
             "\r\n\r\n", "GET\r\n\r\n", "NONSENSE / HTTP/1.1\r\n\r\n", "GET / HTTP/9.9\r\n\r\n",
             std::string(20000, 'x') + "\r\n\r\n", "GET /" + std::string(9000, 'a') + " HTTP/1.1\r\n\r\n",
             "GET / HTTP/1.1\r\nbroken\r\n\r\n",
             "POST /v1/completions HTTP/1.1\r\nContent-Length: -5\r\nConnection: close\r\n\r\n",
             "POST /v1/completions HTTP/1.1\r\nContent-Length: 99999999999999999999\r\nConnection: close\r\n\r\n",
             "POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\nzz\r\n\r\n"}) {
        CAPTURE(bytes.substr(0, 60));
        const std::string answer = server.raw(bytes);
        CHECK((answer.empty() || answer.starts_with("HTTP/1.1 4") || answer.starts_with("HTTP/1.1 5")));
    }
    const auto large = server.post("/v1/completions", {{"prompt", std::string(3000, 'x')}});
    REQUIRE(large);
    CHECK(large->status == 413);
    CHECK(contains(json::parse(large->body)["error"]["message"].get<std::string>(), "2000"));
    const auto unknown = server.client.Get("/" + std::string(600, 'a'));
    REQUIRE(unknown);
    CHECK(unknown->status == 404);
    CHECK(json::parse(unknown->body)["error"]["code"] == "not_found");
    CHECK(server.client.Get("/health")->status == 200);
}

TEST_CASE("http: a key is needed where one is set") {
    CHECK(serve::is_same_secret("abc", "abc"));
    for (const char * wrong : {"", "ab", "abd", "abcd", "xbc"}) {
        CHECK(!serve::is_same_secret(wrong, "abc"));
    }
    serve::ServeParams params = small_params();
    params.api_keys           = {"sesame", "second"};
    TestServer server(params);
    const auto with = [&](const httplib::Headers & headers) {
        return server.client.Get("/v1/models", headers)->status;
    };
    CHECK(with({}) == 401);
    CHECK(with({{"Authorization", "Bearer sesam"}}) == 401);
    CHECK(with({{"Authorization", "sesame"}}) == 401);
    CHECK(with({{"Authorization", "Bearer sesame"}}) == 200);
    CHECK(with({{"Authorization", "Bearer second"}}) == 200);
    CHECK(with({{"X-Api-Key", "sesame"}}) == 200);
    CHECK(server.client.Get("/health")->status == 200);
    const auto refused = server.client.Get("/v1/models");
    CHECK(json::parse(refused->body)["error"]["type"] == "authentication_error");
}

TEST_CASE("http: pages of other origins are let in only where that was asked for") {
    const httplib::Headers page = {{"Origin", "http://page.example"}};
    {
        TestServer server;
        CHECK(!server.client.Get("/health", page)->has_header("Access-Control-Allow-Origin"));
        CHECK(!server.client.Options("/v1/models", page)->has_header("Access-Control-Allow-Origin"));
    }
    serve::ServeParams params = small_params();
    params.cors_origins       = {"http://page.example"};
    params.api_keys           = {"k"};
    TestServer server(params);
    CHECK(server.client.Get("/health", page)->get_header_value("Access-Control-Allow-Origin") == "http://page.example");
    const httplib::Headers other = {{"Origin", "http://other.example"}};
    CHECK(!server.client.Get("/health", other)->has_header("Access-Control-Allow-Origin"));
    const auto asked = server.client.Options("/v1/models", page);
    CHECK(asked->status == 204);
    CHECK(contains(asked->get_header_value("Access-Control-Allow-Headers"), "authorization"));
}

TEST_CASE("http: a page whose name leads here is not answered") {
    TestServer local;
    const auto status = [](TestServer & server, const char * host) {
        const httplib::Headers headers = {{"Host", host}};
        return server.client.Get("/v1/models", headers)->status;
    };
    CHECK(status(local, "rebound.example") == 403);
    CHECK(status(local, "rebound.example:8080") == 403);
    for (const char * host : {"localhost", "localhost:8080", "127.0.0.1:1", "[::1]:8080"}) {
        CHECK(status(local, host) == 200);
    }
}

TEST_CASE("http: a client that hangs up leaves its place within a step") {
    serve::ServeParams params  = small_params();
    params.context.n_sequences = 1;
    TestServer server(params);
    for (const bool stream : {false, true}) {
        CAPTURE(stream);
        const int fd = server.open_socket();
        TestServer::write_all(fd, post_bytes("/v1/chat/completions", long_request(stream)));
        CHECK(server.await_running(1));
        close(fd);
        CHECK(server.await_running(0));
        CHECK(server.post("/v1/chat/completions", {{"messages", question}})->status == 200);
    }
}

TEST_CASE("http: a full queue says when to come again, and a request can be cancelled") {
    serve::ServeParams params  = small_params();
    params.context.n_sequences = 1;
    params.n_queue             = 1;
    TestServer server(params);
    const int  running = server.open_socket(), waiting = server.open_socket();
    TestServer::write_all(running, post_bytes("/v1/chat/completions", long_request(true)));
    CHECK(server.await_running(1));
    TestServer::write_all(waiting, post_bytes("/v1/chat/completions", long_request(true)));
    while (!contains(server.client.Get("/metrics")->body, "llamacpp:requests_deferred 1\n")) {
    }
    const auto refused = server.post("/v1/chat/completions", {{"messages", question}});
    REQUIRE(refused);
    CHECK(refused->status == 503);
    CHECK(refused->get_header_value("Retry-After") == "1");
    CHECK(json::parse(refused->body)["error"]["code"] == "queue_full");
    // others are not kept waiting
    CHECK(server.client.Get("/health")->status == 200);

    std::string head(4096, '\0');
    head.resize(static_cast<size_t>(recv(running, head.data(), head.size(), 0)));
    const size_t at = head.find("X-Request-Id: ");
    REQUIRE(at != std::string::npos);
    const std::string id = head.substr(at + 14, head.find("\r\n", at) - at - 14);
    CHECK(server.client.Delete("/v1/chat/completions/" + id)->status == 200);
    std::string rest = head;
    char        buffer[4096];
    for (ssize_t n = 0; (n = recv(running, buffer, sizeof(buffer), 0)) > 0;) {
        rest.append(buffer, static_cast<size_t>(n));
    }
    CHECK(contains(rest, "\"code\":\"cancelled\""));
    CHECK(server.client.Delete("/v1/chat/completions/nobody")->status == 404);
    close(running);
    close(waiting);
    CHECK(server.await_running(0));
}

TEST_CASE("http: an answer that takes too long is ended") {
    serve::ServeParams params = small_params();
    params.limits.seconds     = 0.05;
    params.context.n_ctx      = 2048;
    TestServer server(params);
    const auto late =
        server.post("/v1/chat/completions", {{"messages", question}, {"max_tokens", 1900}, {"ignore_eos", true}});
    REQUIRE(late);
    CHECK(late->status == 504);
    CHECK(server.await_running(0));
}

TEST_CASE("http: a port is not shared") {
    TestServer         server;
    serve::ServeParams params = small_params();
    params.port               = server.server.port();
    CHECK_THROWS_AS(serve::Server{params}, Error);
    const ProgramResult result = run_program(
        {"llama-diffusion-server", {"-m", tiny_model("llada"), "--port", std::to_string(params.port)}, {}, {}, {}});
    CHECK(result.code == 2);
    CHECK(result.is_one_line());
    CHECK(contains(result.err, "the port is in use"));
}

namespace {

// The program, and the port that it says it listens on.
struct RunningServer {
    explicit RunningServer(Args more = {})
        : log(temp_dir() + "/log"),
          program(
              {"llama-diffusion-server",
               Args{"-m", tiny_chat_model("llada"), "--port", "0", "-c", "4096", "-t", "1", "--log-file", log} + more,
               {},
               {},
               {}}) {
        for (int i = 0; i < 50000 && port == 0; i++) {
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
            const std::string text = read_file(log);
            const size_t      at   = text.find("http://127.0.0.1:");
            if (contains(text, "serving") && at != std::string::npos) {
                port = std::stoi(text.substr(at + 17));
            }
        }
        REQUIRE(port > 0);
    }

    std::string log;
    Program     program;
    int         port = 0;
};

} // namespace

TEST_CASE("server program: the first signal finishes what was asked for, the second ends") {
    {
        RunningServer   server;
        httplib::Client client("127.0.0.1", server.port);
        client.set_read_timeout(300);
        std::string     text;
        std::thread     asking([&] {
            const auto answer = client.Post("/v1/chat/completions", long_request(true).dump(), "application/json");
            text              = answer ? answer->body : "none";
        });
        httplib::Client other("127.0.0.1", server.port);
        while (!contains(other.Get("/slots")->body, "true")) {
        }
        server.program.send(SIGTERM);
        asking.join();
        CHECK(text.ends_with("data: [DONE]\n\n"));
        CHECK(contains(text, "\"finish_reason\":\"length\""));
        CHECK(server.program.finish().code == 0);
    }
    RunningServer server;
    json          body = long_request(true);
    body["max_tokens"] = 4000;
    httplib::Client client("127.0.0.1", server.port);
    std::thread     asking([&] { client.Post("/v1/chat/completions", body.dump(), "application/json"); });
    httplib::Client other("127.0.0.1", server.port);
    while (!contains(other.Get("/slots")->body, "true")) {
    }
    server.program.send(SIGINT);
    while (!contains(read_file(server.log), "finishing")) {
    }
    server.program.send(SIGINT);
    CHECK(server.program.finish().code == 130);
    asking.join();
}

TEST_CASE("server program: says where it listens and what is wrong") {
    RunningServer server({"--host", "127.0.0.1"});
    CHECK(contains(read_file(server.log), "which only this machine can reach"));
    const auto refused = [](const Args & args, const std::string & says) {
        check_refused(run_program({"llama-diffusion-server", Args{"-m", tiny_model("llada")} + args, {}, {}, {}}),
                      says);
    };
    refused({"--api-key-file", "/nowhere"}, "--api-key-file");
    refused({"--api-key", ""}, "empty");
    refused({"--parallel", "0"}, "--parallel");
    refused({"--port", "70000"}, "--port");
    refused({"--diffusion-threshold", "3"}, "--diffusion-threshold");
}
