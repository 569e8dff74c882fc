#pragma once

#include "buoy/engine.h"
#include "buoy/generate.h"
#include "buoy/vocab.h"
#include "support/tap-log.h"

#include <memory>
#include <string>
#include <vector>

namespace buoy::test {

// What F32 files may differ by between devices, and entries of patterns: up to 1.7e-3 was seen on random models with llvmpipe.
constexpr double logits_nmse_max  = 1e-4;
constexpr double pattern_diff_max = 2e-3;

bool has_vulkan();

// The same model twice: once on the CPU alone, once with everything on the first Vulkan device.
struct Devices {
    std::unique_ptr<Engine> cpu;
    std::unique_ptr<Engine> vulkan;
};

Devices on_both(const std::string & path, const EngineParams & params);

// Operations of a pass that our engine, loaded as above, computes elsewhere than on Vulkan, by name.
std::vector<std::string> fallen_back(Engine & engine, const ForwardRequest & request);

// The pass on both devices: logits within the limit, and no operation of it falls back to the CPU.
void check_logits(const Devices & on, const ForwardRequest & request);

// The same for what the pass shows; patterns by their own limit, -inf exactly where the CPU has it.
void check_taps(const Devices & on, ForwardRequest request, const std::vector<TapPoint> & taps);

// Both devices write the same text, in as many passes.
void check_text(const Devices & on, const Vocab & vocab, GenerateParams params);

} // namespace buoy::test
