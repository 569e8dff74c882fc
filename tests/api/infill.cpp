// Gaps of a text that a diffusion model fills.
#include "buoy/infill.h"
#include "buoy/context.h"
#include "buoy/generate.h"

#include <cstdio>
#include <string>

void example_infill(const std::string & dir) {
    const buoy::Vocab  vocab = buoy::Vocab::load(dir + "/model.gguf");
    const buoy::Infill infill(vocab, vocab.mask(), "The cat [[4]] on the mat.");

    const auto           context = buoy::load_context(dir + "/model.gguf", {}, {.n_ctx = 64, .n_threads = 1});
    buoy::GenerateParams params;
    params.n_predict           = 0; // only the masks of the prompt
    const buoy::Generation out = buoy::generate(*context, infill.tokens(), params);
    std::printf("%s\n", infill.filled(vocab, out.sequence).c_str());
}
