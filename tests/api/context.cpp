// One pass over five tokens, the logits of the last.
#include "buoy/context.h"

#include <cstdio>
#include <string>

void example_context(const std::string & dir) {
    const auto context = buoy::load_context(dir + "/model.gguf", {}, {.n_ctx = 64, .n_threads = 1});

    buoy::ForwardRequest request;
    request.tokens                     = {1, 2, 3, 4, 5};
    request.rows                       = {4};
    const buoy::ForwardResult & result = context->forward(request);
    std::printf("%zu logits of %d tokens\n", result.logits.size(), context->info().n_vocab);
}
