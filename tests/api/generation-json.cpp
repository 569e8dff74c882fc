// A machine-readable account of a generation.
#include "buoy/generation-json.h"
#include "buoy/context.h"

#include <cstdio>
#include <string>

void example_generation_json(const std::string & dir) {
    const buoy::ContextParams context_params{.n_ctx = 64, .n_threads = 1};
    buoy::GenerateParams      params;
    params.n_predict               = 8;
    const auto             context = buoy::load_context(dir + "/model.gguf", {}, context_params);
    const buoy::Generation out     = buoy::generate(*context, {1, 2, 3}, params);
    std::printf("%s", buoy::generation_json({context->info(), context_params, params, out, "its text"}).c_str());
    std::printf("%.1f tokens/s\n", buoy::tokens_per_second(out));
}
