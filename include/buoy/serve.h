#pragma once

#include "buoy/context.h"
#include "buoy/generate.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace buoy::serve {

// What one request may ask for.
struct Limits {
    size_t  body_bytes    = 16 << 20;
    int32_t n_answers     = 16;   // n, times the number of prompts
    int32_t n_steps       = 4096; // diffusion steps
    int32_t n_stop        = 16;   // stop texts
    int32_t n_connections = 512;  // at the same time
    double  seconds       = 600;  // from its arrival to its end
};

struct ServeParams {
    std::string host = "127.0.0.1";
    int32_t     port = 8080; // 0: any that is free

    std::string              model_name;         // that clients see, of the first model; empty: the file's
    ContextParams            context;            // n_sequences: requests computed at the same time
    GenerateParams           generate;           // what a request leaves open
    bool                     random_seed = true; // each request that names no seed gets one of its own
    bool                     ignore_eos  = false;
    int32_t                  n_queue     = 64; // requests that may wait
    Limits                   limits;
    std::vector<std::string> api_keys;                   // one of them is needed; empty: none
    std::vector<std::string> cors_origins;               // pages that may ask, "*": any
    std::string              runs_dir;                   // where recordings are kept; empty: nothing can be recorded
    uint64_t                 runs_max_size = 8ull << 30; // bytes of all of them
    LogCallback              log;                        // called from any thread
};

// Models behind HTTP, with the routes of docs/server.md. It answers on threads of its own.
class Server {
public:
    // Listens from here on, and answers that the model is loading. Throws Error where the port is taken.
    explicit Server(const ServeParams & params);
    ~Server(); // ends what runs after its current step
    Server(const Server &)             = delete;
    Server & operator=(const Server &) = delete;

    int32_t     port() const;
    std::string url() const;
    bool        is_local() const; // only this machine can connect

    // From now on requests are computed. Called again, it adds another model, which requests choose by name; the first one is for
    // requests that name none. Each has contexts of its own.
    void serve(std::shared_ptr<const Model> model);

    // Takes no more requests; returns when those there were have been answered.
    void drain();

private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace buoy::serve
