#pragma once

#include "buoy/context.h"
#include "buoy/generate.h"
#include "buoy/vocab.h"
#include "support/tap-log.h"

#include <memory>
#include <string>
#include <vector>

namespace buoy::test {

// ggml's shaders round the factors of a matrix product to F16, unless GGML_VK_DISABLE_F16 is set, which costs speed. Seen with
// llvmpipe: logits of F32 files within NMSE 3e-7 and patterns within 5e-4 (flash attention takes F16 keys) with it, 2e-5 and 2e-3
// without.
bool is_exact();

bool has_vulkan();

// The same model twice: once on the CPU alone, once with everything on the first Vulkan device.
struct Devices {
    std::unique_ptr<Context> cpu;
    std::unique_ptr<Context> vulkan;
};

Devices on_both(const std::string & path, const ContextParams & params);

// Operations of a pass that our engine, loaded as above, computes elsewhere than on Vulkan, by name.
std::vector<std::string> fallen_back(Context & context, const Batch & batch);

// The pass on both devices: every row's logits within the limit.
void check_near(const Devices & on, const Batch & batch);

// The same, and no operation of it falls back to the CPU.
void check_logits(const Devices & on, const Batch & batch);

// How many rows, each of n_vocab, differ by more than the limit.
size_t count_far(const std::vector<float> & actual, const std::vector<float> & expected, size_t n_vocab);

// The same two for what the pass shows; patterns by their own limit, -inf exactly where the CPU has it.
void check_shown(const Devices & on, const Batch & batch, const std::vector<TapPoint> & taps);
void check_taps(const Devices & on, Batch batch, const std::vector<TapPoint> & taps);

// Both devices write the same text, in as many passes.
void check_text(const Devices & on, const Vocab & vocab, GenerateParams params);

} // namespace buoy::test
