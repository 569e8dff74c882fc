#include "buoy/bundled.h"
#include "buoy/device.h"
#include "console.h"
#include "interrupt.h"
#include "loading.h"
#include "params.h"
#include "program.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <thread>

#include <unistd.h>

namespace {

constexpr const char * name = "llama-diffusion-server";

// Where runs are recorded, if nobody said where: gone when the program ends.
class TemporaryRuns {
public:
    TemporaryRuns() {
        std::string path = (std::filesystem::temp_directory_path() / (std::string(name) + "-XXXXXX")).string();
        if (mkdtemp(path.data()) == nullptr) {
            buoy::fail_runtime("cannot make a temporary directory like ", buoy::printable(path), "; use --runs-dir");
        }
        path_ = path;
    }
    ~TemporaryRuns() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    TemporaryRuns(const TemporaryRuns &)             = delete;
    TemporaryRuns & operator=(const TemporaryRuns &) = delete;

    const std::string & path() const { return path_; }

private:
    std::string path_;
};

void tell_address(const Console & console, const buoy::serve::Server & server, const ServerParams & params) {
    console.log(buoy::LogLevel::notice, buoy::concat("listening on ", server.url(),
                                                     server.is_local() ? ", which only this machine can reach" : ""));
    if (!server.is_local() && params.serve.api_keys.empty()) {
        console.log(buoy::LogLevel::warn, "other machines can use this server, and no --api-key is set");
    }
}

int run(ServerParams & params, const Command & command) {
    settle_server(params);
    buoy::add_rpc_servers(params.rpc);
    if (params.list_devices) {
        print_devices();
        return 0;
    }
    const Console console(name, command.flags, params.verbose, params.log_file);
    params.model.log = console.callback();
    params.serve.log = console.callback();
    if (params.models.empty()) {
        params.models = {buoy::bundled_diffusion_model, buoy::bundled_autoregressive_model};
    }
    for (std::string & path : params.models) {
        path = resolve_model(path);
    }
    std::optional<TemporaryRuns> runs;
    if (params.serve.runs_dir.empty()) {
        params.serve.runs_dir = runs.emplace().path();
    }
    buoy::serve::Server server(params.serve);
    tell_address(console, server, params);
    std::vector<std::shared_ptr<const buoy::Model>> models;
    for (const std::string & path : params.models) {
        // On a thread that ends: OpenMP keeps the threads of each one that ever asked for some, and once they are more than the
        // processors, every pass waits for them asleep.
        const auto load = [&] {
            return load_with_bar(params.model, [&](const buoy::ModelParams & with) {
                return buoy::load_model(path, with, params.context);
            });
        };
        models.push_back(std::async(std::launch::async, load).get());
        if (models.back() == nullptr) {
            return exit_interrupted;
        }
    }
    std::string names;
    for (const auto & model : models) { // once all are there: no request sees some of them only
        tell_preset(console, command.flags, params.generate, model->info());
        server.serve(model);
        names += (names.empty() ? "" : ", ") + buoy::printable(model->info().path);
    }
    console.log(buoy::LogLevel::notice, "serving " + names);
    while (!interrupted()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    console.log(buoy::LogLevel::notice, "finishing what was asked for; Ctrl-C again ends at once");
    server.drain();
    return 0;
}

} // namespace

int main(int argc, char ** argv) {
    Program program(
        name, "Serves a diffusion or autoregressive language model over HTTP, with OpenAI's API and llama-server's.",
        Program::Interrupt::asked);
    program.usage     = "  llama-diffusion-server [-m MODEL.gguf] [--host 127.0.0.1] [--port 8080] [flags]\n";
    program.notes     = "(the first Ctrl-C finishes what was asked for, a second one quits).";
    const auto params = std::make_shared<ServerParams>();
    Command &  serve  = program.add("", "serve a model");
    add_server_flags(serve.flags, *params);
    serve.run = [params](const Command & itself) { return run(*params, itself); };
    return program.main(argc, argv);
}
