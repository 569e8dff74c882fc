// A text, and what each step wrote.
#include "buoy/generate.h"
#include "buoy/context.h"
#include "buoy/vocab.h"

#include <cstdio>
#include <string>

void example_generate(const std::string & dir) {
    const buoy::Vocab vocab   = buoy::Vocab::load(dir + "/model.gguf");
    const auto        context = buoy::load_context(dir + "/model.gguf", {}, {.n_ctx = 64, .n_threads = 1});

    buoy::GenerateParams params;
    params.n_predict = 8;
    params.end_ids   = vocab.end_ids();
    params.on_step   = [](const buoy::StepReport & step, const std::vector<int32_t> &) {
        std::printf("step %d wrote %zu tokens\n", step.step, step.committed.size());
        return true; // false ends the generation
    };
    const buoy::Generation out = buoy::generate(*context, vocab.encode("a cat", true, false), params);
    std::printf("%s\n", vocab.decode(out.tokens).c_str());
}
