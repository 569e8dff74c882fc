// A published case, made again.
#include "buoy/replay-case.h"
#include "buoy/context.h"

#include <cstdio>
#include <fstream>
#include <string>

void example_replay_case(const std::string & dir) {
    std::ofstream(dir + "/cases.json") << R"({"cases": [{"id": "short", "sampler": "llada", "prompt_ids": [1, 2, 3],
        "settings": {"gen_length": 4, "steps": 4, "block_length": 4, "temperature": 0}}]})";

    const buoy::ReplayCase replay  = buoy::load_case(dir + "/cases.json:short");
    const auto             context = buoy::load_context(dir + "/model.gguf", {}, {.n_ctx = 64, .n_threads = 1});
    const buoy::Generation out     = buoy::generate(*context, replay.prompt, replay.params);
    std::printf("%s: %zu tokens in %lld passes\n", replay.id.c_str(), out.tokens.size(),
                static_cast<long long>(out.n_forward));
}
