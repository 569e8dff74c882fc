// Weights and vocabulary, loaded once for any number of contexts.
#include "buoy/model.h"
#include "buoy/context.h"

#include <cstdio>
#include <string>

void example_model(const std::string & dir) {
    const buoy::ModelFile file(dir + "/model.gguf"); // only its header is read
    buoy::ModelParams     params;
    params.n_gpu_layers            = 0;
    const auto              model  = buoy::load_model(file, params);
    const auto              first  = model->make_context({.n_ctx = 64});
    const auto              second = model->make_context({.n_ctx = 128});
    const buoy::ModelInfo & info   = model->info();
    std::printf("%s: %d layers, %s attention, %d tokens\n", info.arch.c_str(), info.n_layer,
                buoy::attention_kind_name(info.traits.attention), model->vocab().size());
}
