#include "commands.h"

#include "calibrate.h"
#include "session.h"

#include <cstdio>

namespace buoy {

namespace {

void add_common(CLI::App & app, CalibrateParams & params) {
    app.add_option("-m,--model", params.model, "GGUF file")->required();
    app.add_option("-f,--file", params.text,
                   "text to run it over; .jsonl: lines of {\"prompt\", \"answer\"}, of which answers are hidden")
        ->required();
    app.add_option("-c,--chunk", params.n_chunk, "tokens at a time, at most the model's context")
        ->check(CLI::Range(2, 1 << 20))
        ->capture_default_str();
    app.add_option("--chunks", params.n_max, "chunks at most, 0: all")->check(CLI::NonNegativeNumber);
    app.add_option("-s,--seed", params.seed, "decides which tokens are hidden")->capture_default_str();
    app.add_option("-t,--threads", params.n_threads, "threads, 0: one per core")->check(CLI::Range(0, 512));
}

} // namespace

int imatrix_command(int argc, char ** argv) {
    CalibrateParams params;
    bool            verbose = false;
    CLI::App        app("Collects an importance matrix over a text with tokens hidden at random.",
                        "llama-diffusion-convert imatrix");
    add_common(app, params);
    app.add_option("-o,--output", params.output, "file to write, llama.cpp's GGUF format")->required();
    app.add_flag("--force", params.force, "replace an existing output");
    app.add_flag("-v,--verbose", verbose, "say more");

    Session session("collecting");
    return session.run(app, argc, argv, [&] {
        params.log                 = session.log(verbose);
        params.progress            = session.progress();
        const ImatrixReport report = make_imatrix(params);
        std::printf("%zu tensors, %u chunks, %llu tokens\n", report.n_tensors, report.n_chunks,
                    static_cast<unsigned long long>(report.n_tokens));
    });
}

int loss_command(int argc, char ** argv) {
    CalibrateParams params;
    bool            verbose = false;
    CLI::App app("Measures the cross-entropy of tokens hidden at random in a text.", "llama-diffusion-convert loss");
    add_common(app, params);
    app.add_flag("-v,--verbose", verbose, "say more");

    Session session("measuring");
    return session.run(app, argc, argv, [&] {
        params.log              = session.log(verbose);
        params.progress         = session.progress();
        const LossReport report = measure_loss(params);
        std::printf("%.4f +- %.4f nats over %llu hidden tokens\n", report.loss, report.error,
                    static_cast<unsigned long long>(report.n_hidden));
    });
}

} // namespace buoy
