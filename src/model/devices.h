#pragma once

#include "buoy/model.h"

#include <ggml-backend.h>

#include <string>
#include <vector>

namespace buoy {

// Loads ggml's dynamic backends on the first call. What went wrong then, in one line; empty: nothing.
const std::string & load_backends();

bool is_gpu(ggml_backend_dev_t device);
bool is_rpc(ggml_backend_dev_t device);

// By its own name or that of its memory, as llama.cpp has it in -ot; throws Error for a name that nothing has.
ggml_backend_dev_t find_device(const std::string & setting, const std::string & name);

// The GPUs to use, servers of other machines first: what is on them has the longest way to the output.
std::vector<ggml_backend_dev_t> choose_gpus(const ModelParams & params);

} // namespace buoy
