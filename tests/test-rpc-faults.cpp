// Servers that are not there, are something else, or disappear.

#include "analysis/recording.h"
#include "buoy/device.h"
#include "buoy/error.h"
#include "buoy/generate.h"
#include "support/cli.h"
#include "support/oracle.h"
#include "support/paths.h"
#include "support/random-context.h"
#include "support/rpc-servers.h"

#include <doctest/doctest.h>
#include <ggml-backend.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace buoy;
using namespace buoy::test;

namespace {

using Clock = std::chrono::steady_clock;

constexpr double seconds_to_notice = 60; // it takes none; others may need the processor

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// Something that listens, takes one client, says what it is told to say and hangs up.
class FakeServer {
public:
    explicit FakeServer(std::string answer) : answer_(std::move(answer)), fd_(socket(AF_INET, SOCK_STREAM, 0)) {
        sockaddr_in address{};
        socklen_t   size        = sizeof(address);
        address.sin_family      = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        REQUIRE(bind(fd_, reinterpret_cast<const sockaddr *>(&address), size) == 0);
        REQUIRE(getsockname(fd_, reinterpret_cast<sockaddr *>(&address), &size) == 0);
        REQUIRE(listen(fd_, 1) == 0);
        endpoint_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
        thread_   = std::thread([this] {
            const int client = accept(fd_, nullptr, nullptr);
            char      request[1 + 8 + 24]; // closed with a part of it unread, the connection would lose the answer
            if (client >= 0 && recv(client, request, sizeof(request), MSG_WAITALL) > 0) {
                send(client, answer_.data(), answer_.size(), MSG_NOSIGNAL);
            }
            close(client);
        });
    }
    ~FakeServer() {
        shutdown(fd_, SHUT_RDWR);
        close(fd_);
        thread_.join();
    }

    const std::string & endpoint() const { return endpoint_; }

private:
    std::string answer_;
    std::string endpoint_;
    int         fd_;
    std::thread thread_;
};

// What a server of that version answers first.
std::string hello(int major, int minor) {
    std::string answer(8 + 4 + 24, '\0');
    answer[0] = 4 + 24;
    answer[8] = static_cast<char>(major);
    answer[9] = static_cast<char>(minor);
    return answer;
}

std::string add_error(const std::string & endpoint) {
    try {
        add_rpc_servers({endpoint});
        return "";
    } catch (const Error & error) {
        CHECK(error.kind() == ErrorKind::request);
        return error.what();
    }
}

// A model with everything on the server.
TestModel model_on(const RpcServer & server) {
    add_rpc_servers({server.endpoint()});
    TestModel   model;
    RandomModel random;
    random.n_layer     = 4;
    model.path         = random_gguf(random);
    model.devices      = {ggml_backend_dev_name(ggml_backend_dev_get(ggml_backend_dev_count() - 1))};
    model.n_gpu_layers = 99;
    return model;
}

template <typename Call> void check_lost(const RpcServer & server, const Call & call) {
    const Clock::time_point begin = Clock::now();
    std::string             what;
    try {
        call();
    } catch (const Error & error) {
        CHECK(error.kind() == ErrorKind::runtime);
        what = error.what();
    }
    CHECK(what.find(server.endpoint()) != std::string::npos);
    CHECK(what.find('\n') == std::string::npos);
    CHECK(seconds_since(begin) < seconds_to_notice);
}

} // namespace

TEST_SUITE_BEGIN("RPC servers" * doctest::skip(!has_rpc_server()));

TEST_CASE("what is no server is told by its name") {
    CHECK(add_error("localhost") == "RPC server 'localhost': expected host:port");
    CHECK(contains(add_error("localhost:99999"), "expected a port up to 65535, found '99999'"));
    CHECK(add_error(":50052") == "RPC server ':50052': expected host:port");
    CHECK(add_error("host.invalid:50052").rfind("RPC server 'host.invalid:50052': ", 0) == 0);
    const std::string nobody = "127.0.0.1:" + std::to_string(free_port());
    CHECK(add_error(nobody) == "RPC server '" + nobody + "': cannot connect: Connection refused");
    check_refused(cli({"-m", tiny_model("llada"), "-p", "a", "-n", "4", "--rpc", nobody}), nobody);
    check_refused(cli({"--list-devices", "--rpc", nobody}), nobody);
}

TEST_CASE("a server that speaks something else is told") {
    const FakeServer older(hello(3, 0)), newer(hello(7, 200)), other("220 ready\r\n and a good day to you, client\r\n");
    const FakeServer silent("");
    CHECK(add_error(older.endpoint()).find("it speaks version 3.0.0 of the protocol, expected 7.0") !=
          std::string::npos);
    CHECK(add_error(newer.endpoint()).find("it speaks version 7.200.0") != std::string::npos);
    CHECK(contains(add_error(other.endpoint()), "it does not answer like an RPC server"));
    CHECK(contains(add_error(silent.endpoint()), "it does not answer like an RPC server"));
}

TEST_CASE("a server lost before or while a model is loaded ends the loading") {
    const RpcServer early;
    const TestModel model = model_on(early);
    early.send(SIGKILL);
    check_lost(early, [&] { load_context(model, exact_alone()); });

    const RpcServer late;
    TestModel       watched = model_on(late);
    watched.progress        = [&](float done) {
        if (done > 0.3f) {
            late.send(SIGKILL);
        }
        return true;
    };
    check_lost(late, [&] { load_context(watched, exact_alone()); });
}

TEST_CASE("a server lost between two passes ends the run, and the next engine works") {
    const RpcServer server;
    const auto      context = load_context(model_on(server), exact_alone());
    GenerateParams  params;
    params.n_predict = 32;
    int n_steps      = 0;
    params.on_step   = [&](const StepReport &, const std::vector<int32_t> &) {
        if (++n_steps == 5) {
            server.send(SIGKILL);
        }
        return true;
    };
    check_lost(server, [&] { generate(*context, {1, 2, 3}, params); });
    CHECK(n_steps >= 5);
    CHECK(n_steps < 32);
    check_lost(server, [&] { generate(*context, {1, 2, 3}, params); }); // and stays lost

    const RpcServer another;
    const auto      fresh = load_context(model_on(another), exact_alone());
    params.on_step        = nullptr;
    CHECK(generate(*fresh, {1, 2, 3}, params).tokens.size() == 32);
}

TEST_CASE("an engine without servers does not mind one that is lost") {
    const RpcServer server;
    TestModel       model  = model_on(server);
    const auto      far    = load_context(model, exact_alone());
    model.devices          = {"none"};
    const auto     near    = load_context(model, exact_alone());
    ForwardRequest request = whole_request({1, 2, 3});
    far->forward(request);
    server.send(SIGKILL);
    check_lost(server, [&] { far->forward(request); });
    CHECK_FALSE(near->forward(request).logits.empty());
}

TEST_CASE("libllama's engine loses a server the same way") {
    const RpcServer server;
    const auto      context = load_llama_context(model_on(server), exact_alone());
    ForwardRequest  request;
    request.tokens = {1, 2, 3};
    request.rows   = {0, 1, 2};
    context->forward(request);
    server.send(SIGKILL);
    check_lost(server, [&] { context->forward(request); });
}

TEST_CASE("the program ends with 2 and one line, and the recording has every step before") {
    const std::string dir = temp_dir(), recording = dir + "/run.npz";
    const RpcServer   first, second;
    ProgramSpec       spec;
    spec.name = "llama-diffusion-cli";
    spec.args = {"-m",        tiny_model("llada"),
                 "-p",        "abc",
                 "-n",        "500",
                 "-ngl",      "all",
                 "-ts",       "1,1",
                 "--rpc",     first.endpoint() + "," + second.endpoint(),
                 "-c",        "600",
                 "-t",        "1",
                 "--no-perf", "--attn-dump",
                 recording,   "--attn-reduce",
                 "received"};
    Program program(spec);
    // enough of it on disk that steps are done
    const auto written = [&] {
        uintmax_t bytes = 0;
        for (const auto & entry : std::filesystem::directory_iterator(dir)) {
            bytes += entry.file_size();
        }
        return bytes;
    };
    for (int i = 0; i < 20000 && written() < 200000; i++) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    REQUIRE(written() >= 200000);
    const Clock::time_point killed = Clock::now();
    second.send(SIGKILL);
    const ProgramResult result = program.finish();
    CHECK(seconds_since(killed) < seconds_to_notice);
    CHECK(result.code == 2);
    const std::string last =
        "llama-diffusion-cli: RPC server '" + second.endpoint() + "': lost: the connection broke\n";
    REQUIRE(result.err.size() > last.size());
    CHECK(result.err.substr(result.err.size() - last.size()) == last);

    const auto run = analysis::Recording::open(recording);
    CHECK(run.n_steps() > 2);
    REQUIRE(run.steps().size() == run.n_steps());
    for (int32_t step : run.steps()) {
        for (int32_t layer : run.layers()) {
            CHECK_FALSE(run.read(Tap::pattern, step, layer).values.empty());
        }
    }
    const size_t end      = run.n_steps();
    size_t       n_masked = 0;
    for (size_t position = 0; position < run.n_positions(); position++) {
        n_masked += run.token(end, position) == run.mask_id() ? 1 : 0;
    }
    CHECK(n_masked == 500 - end); // a token a step
}

TEST_SUITE_END();
