#pragma once

#include "arch.h"
#include "io/gguf-writer.h"
#include "tensor-plan.h"
#include "tokenizer.h"

namespace buoy {

// The keys of a GGUF file made from a Hugging Face directory: what it is, its sizes, its tokenizer.
void set_general(GgufWriter & header, const std::string & dir, const ArchMapping & mapping, const HfJson & config,
                 const std::vector<PlannedTensor> & tensors, uint32_t file_type);
void set_model(GgufWriter & header, const ArchMapping & mapping, const HfParams & params);
void set_tokenizer(GgufWriter & header, const Tokenizer & tokenizer);

} // namespace buoy
