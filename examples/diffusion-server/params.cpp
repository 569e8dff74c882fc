#include "params.h"

#include <fstream>

namespace {

void add_http_flags(FlagTable & table, ServerParams & o) {
    buoy::serve::ServeParams & s = o.serve;
    table.group("Server");
    table
        .texts("-m, --model", "FILE", o.models, 1,
               "GGUF file, or the name of a bundled model (buoy-mdm, buoy-arm); can be repeated: requests choose by "
               "name, the "
               "first one is the default")
        .with_default("buoy-mdm and buoy-arm")
        .with_env("LLAMA_ARG_MODEL");
    table.text("-a, --alias", "NAME", s.model_name, "name of the first model in the API")
        .with_default("the file's")
        .with_env("LLAMA_ARG_ALIAS");
    table.text("--host", "ADDRESS", s.host, "address to listen on; the default can be reached from this machine only")
        .with_default(s.host)
        .with_env("LLAMA_ARG_HOST");
    table.number("--port", "N", s.port, {0, 65535}, "port to listen on; 0 takes any free one")
        .with_env("LLAMA_ARG_PORT");
    table
        .number("-np, --parallel", "N", o.n_parallel, {1, 1024},
                "number of answers computed at the same time; each has a context of its own")
        .with_env("LLAMA_ARG_N_PARALLEL");
    table.number("--queue", "N", s.n_queue, {0, 1e6}, "number of answers that may wait; a request beyond it gets 503");
}

void add_safety_flags(FlagTable & table, ServerParams & o) {
    buoy::serve::ServeParams & s = o.serve;
    table.group("Access and limits");
    table.texts("--api-key", "KEY", s.api_keys, 1, "key that a request must have; can be repeated")
        .with_env("LLAMA_API_KEY");
    table.texts("--api-key-file", "FILE", o.key_files, 1, "file with such keys, one per line");
    table.texts(
        "--cors", "ORIGIN", s.cors_origins, 1,
        "web pages of this origin may use the server, such as http://localhost:3000; * for any; can be repeated");
    table.number("--timeout", "SECONDS", s.limits.seconds, {1, 1e6}, "longest time for a request, waiting included");
    table.number("--max-body", "BYTES", s.limits.body_bytes, {1024, 1e10}, "longest request body");
    table.number("--max-answers", "N", s.limits.n_answers, {1, 1024}, "most answers to one request");
    table.number("--max-steps", "N", s.limits.n_steps, {1, 1e6}, "most denoising steps that a request may ask for");
    table.number("--max-connections", "N", s.limits.n_connections, {1, 1e5}, "most connections at the same time");
}

std::vector<std::string> read_keys(const std::string & path) {
    std::ifstream            in(path);
    std::vector<std::string> keys;
    for (std::string line; std::getline(in, line);) {
        if (!line.empty() && line.back() == '\r') {
            line.pop_back();
        }
        if (!line.empty()) {
            keys.push_back(line);
        }
    }
    if (keys.empty()) {
        buoy::fail("--api-key-file ", buoy::in_quotes(path), ": cannot be read, or holds no key");
    }
    return keys;
}

} // namespace

void add_server_flags(FlagTable & table, ServerParams & o) {
    add_http_flags(table, o);
    add_safety_flags(table, o);
    add_sampling_flags(table, o);
    add_denoising_flags(table, o);
    add_compute_flags(table, o, "the model's, at most 4096");
    table.group("Recordings");
    table.text("--runs-dir", "DIR", o.serve.runs_dir, "where runs that requests record are kept")
        .with_default("a temporary directory, deleted at the end");
    table
        .call(
            "--runs-max-size", "SIZE",
            [&o](const std::string & where, const std::string & text) {
                o.serve.runs_max_size = buoy::parse_size(where, text);
            },
            "most that all of them may take")
        .with_default("8G");
    table.group("Output");
    table.toggle("-v, --verbose", o.verbose, true, "log details");
    table.text("--log-file", "FILE", o.log_file, "also write all messages to a file").with_env("LLAMA_ARG_LOG_FILE");
}

void settle_server(ServerParams & o) {
    settle(o);
    for (const std::string & path : o.key_files) {
        const std::vector<std::string> keys = read_keys(path);
        o.serve.api_keys.insert(o.serve.api_keys.end(), keys.begin(), keys.end());
    }
    for (const std::string & key : o.serve.api_keys) {
        if (key.empty()) {
            buoy::fail("--api-key: the key is empty");
        }
    }
    o.context.n_sequences = o.n_parallel;
    o.serve.context       = o.context;
    o.serve.generate      = o.generate;
    o.serve.random_seed   = o.seed < 0;
    o.serve.ignore_eos    = o.ignore_eos;
    buoy::check_params(o.generate);
}
