// Which position is written first: the algorithms there are, and one of one's own.
#include "buoy/algorithm.h"
#include "buoy/context.h"
#include "buoy/generate.h"

#include <cstdio>
#include <string>

void example_algorithm(const std::string & dir) {
    for (const buoy::AlgorithmInfo & info : buoy::algorithms()) {
        std::printf("%s: %s\n", info.name, info.help);
    }
    const auto           context = buoy::load_context(dir + "/model.gguf", {}, {.n_ctx = 64, .n_threads = 1});
    buoy::GenerateParams params;
    params.n_predict = 8;
    params.scorer    = [](std::span<buoy::Candidate> candidates, const buoy::BlockSpan & block, int32_t) {
        for (buoy::Candidate & candidate : candidates) { // sure ones first, and those at the beginning
            candidate.score = candidate.prob - 0.01f * static_cast<float>(candidate.position - block.from);
        }
    };
    std::printf("%zu tokens\n", buoy::generate(*context, {1, 2, 3}, params).tokens.size());
}
