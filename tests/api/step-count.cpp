// How many steps a generation may take.
#include "buoy/step-count.h"
#include "buoy/context.h"

#include <cstdio>
#include <string>

void example_step_count(const std::string & dir) {
    const auto           context = buoy::load_context(dir + "/model.gguf", {}, {.n_ctx = 64, .n_threads = 1});
    buoy::GenerateParams params;
    params.n_predict = 32;
    params.steps     = 8;
    std::printf("%lld\n", static_cast<long long>(buoy::step_count_max(context->info(), {1, 2, 3}, params)));
}
