// The attention of every step, kept in a file.
#include "buoy/record.h"
#include "buoy/context.h"

#include <cstdio>
#include <string>

void example_record(const std::string & dir) {
    const buoy::Vocab vocab   = buoy::Vocab::load(dir + "/model.gguf");
    const auto        context = buoy::load_context(dir + "/model.gguf", {}, {.n_ctx = 64, .n_threads = 1});

    buoy::RecordedRun run;
    run.prompt_tokens      = {1, 2, 3};
    run.generate.n_predict = 8;
    buoy::RecordParams params;
    params.path  = dir + "/run.npz";
    params.force = true;
    buoy::Recorder       recorder(params, context->info(), vocab, run);
    buoy::GenerateParams generate = run.generate;
    recorder.attach(generate);
    buoy::generate(*context, run.prompt_tokens, generate);
    recorder.finish();
}
