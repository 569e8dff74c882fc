#include "support/recording.h"
#include "support/random-context.h"

namespace buoy::test {

namespace {

std::unique_ptr<Context> load(const std::string & path, int32_t n_sequences) {
    TestModel     model;
    ContextParams params = exact_params();
    model.path           = path;
    params.n_ctx         = 128;
    params.n_sequences   = n_sequences;
    params.n_threads     = 1;
    return load_context(model, params);
}

} // namespace

RecordingBench::RecordingBench(const RandomModel & model, int32_t n_sequences)
    : RecordingBench(random_gguf(model), n_sequences) {}

RecordingBench::RecordingBench(const std::string & path, int32_t n_sequences)
    : context(load(path, n_sequences)), vocab(Vocab::load(path)),
      prompt(vocab.encode("Caf\xc3\xa9 \\ ", false, false)) {
    params.n_predict    = 10;
    params.block_length = 5;
}

RecordedRun RecordingBench::recorded_run() const {
    RecordedRun run;
    run.prompt        = "Caf\xc3\xa9 \\ ";
    run.prompt_tokens = prompt;
    run.context       = exact_params();
    run.generate      = params;
    return run;
}

Generation RecordingBench::record(const RecordParams & what) {
    Recorder       recorder(what, context->info(), vocab, recorded_run());
    GenerateParams attached = params;
    recorder.attach(attached);
    Generation out = generate(*context, prompt, attached);
    recorder.finish();
    return out;
}

Generation RecordingBench::run() { return generate(*context, prompt, params); }

RecordParams record_params(const std::string & path, TapReduce reduce, RecordType type) {
    RecordParams params;
    params.path   = path;
    params.reduce = reduce;
    params.type   = type;
    return params;
}

} // namespace buoy::test
