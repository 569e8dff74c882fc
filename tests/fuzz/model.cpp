// Whole models: loading and one forward pass.

#include "gguf-mutate.h"
#include "target.h"

#include "buoy/context.h"
#include "support/hf-dir.h"
#include "support/random-context.h"

namespace buoy::fuzz {

namespace {

std::string seed_model(const std::string & arch) {
    RandomModel model;
    model.arch      = arch;
    model.n_vocab   = 261;
    model.n_embd    = 32;
    model.n_head    = 4;
    model.n_head_kv = 2;
    model.n_layer   = 1;
    if (arch == "llama") {
        model.rope_scaling = "yarn";
    }
    return test::read_file(test::random_gguf(model));
}

std::vector<std::string> seeds() { return {seed_model("llada"), seed_model("llama"), seed_model("qwen3")}; }

void run(const std::string & input) {
    test::TestModel model;
    model.path             = scratch_file("fuzz.gguf", input);
    ContextParams params   = test::exact_params();
    params.n_ctx           = 16;
    params.n_threads       = 1;
    const auto     context = test::load_context(model, params);
    ForwardRequest request;
    request.tokens               = {0, 0, 0, 0};
    request.rows                 = {0, 3};
    request.output               = OutputKind::summary;
    request.kv                   = KvUse::store;
    const ForwardResult & result = context->forward(request);
    demand(result.summaries.size() == 2, "there is a summary for each row");
    for (const RowSummary & row : result.summaries) {
        demand(row.id >= 0 && row.id < context->info().n_vocab, "the most likely token is one of the vocabulary");
    }
}

} // namespace

Target model_target() { return {"model", seeds, run, mutate_gguf}; }

} // namespace buoy::fuzz
