// A model behind HTTP.
#include "buoy/serve.h"

#include <cstdio>
#include <string>

void example_serve(const std::string & dir) {
    buoy::serve::ServeParams params;
    params.port                = 0; // any that is free
    params.context.n_ctx       = 64;
    params.context.n_sequences = 2; // answers computed at the same time
    buoy::serve::Server server(params);
    server.serve(buoy::load_model(dir + "/model.gguf", {}, params.context));
    std::printf("%s/v1/completions answers\n", server.url().c_str());
    server.drain();
}
