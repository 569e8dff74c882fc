// A conversation: what was said is not computed again.
#include "buoy/session.h"
#include "buoy/context.h"

#include <cstdio>
#include <string>

void example_session(const std::string & dir) {
    const auto           context = buoy::load_context(dir + "/model.gguf", {}, {.n_ctx = 64, .n_threads = 1});
    buoy::Session        session(*context);
    buoy::GenerateParams params;
    params.n_predict                 = 8;
    const buoy::Generation     first = session.generate({1, 2, 3}, params);
    const std::vector<int32_t> next  = first.sequence;
    std::printf("%zu of %zu tokens are stored\n", session.stored().size(), next.size());
    session.generate(next, params);
}
