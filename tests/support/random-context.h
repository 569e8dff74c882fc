#pragma once

#include "buoy/context.h"
#include "buoy/random-model.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace buoy::test {

// A model by its file.
struct TestModel : ModelParams {
    std::string path;
};

std::unique_ptr<Context> load_context(const TestModel & model, const ContextParams & params);
std::unique_ptr<Context> load_llama_context(const TestModel & model, const ContextParams & params);

// Everything in F32 and no flash attention: what exactness is tested with.
ContextParams exact_params();

// Writes the model into a fresh directory and returns its path.
std::string random_gguf(const RandomModel & model);

std::unique_ptr<Context> random_context(const RandomModel & model, const ContextParams & params = exact_params());

// n ids below the limit, the same for the same seed.
std::vector<int32_t> random_tokens(size_t n, int32_t limit, uint32_t seed = 1);

// With three layers, and heads that share keys where the architecture lets them.
RandomModel small_model(const std::string & arch, int32_t block_length = 0);

std::vector<int32_t> range(int32_t first, int32_t last); // without the last

// The request's first observer, made where there is none.
Observer & observer(ForwardRequest & request);

// The sequences of a pass; often only one.
struct Batch : std::vector<ForwardRequest> {
    Batch(ForwardRequest request) : std::vector<ForwardRequest>{std::move(request)} {}
    Batch(std::vector<ForwardRequest> requests) : std::vector<ForwardRequest>(std::move(requests)) {}
};

// The request and another sequence of the same positions, rows and observers. scale: the second one guides the first.
Batch two_sequences(ForwardRequest first, const std::vector<int32_t> & second_tokens, std::optional<float> scale = {});

// Tokens [first, last) at their positions, stored.
ForwardRequest stored_part(const std::vector<int32_t> & tokens, int32_t first, int32_t last);

} // namespace buoy::test
