#pragma once

#include "hf-config.h"
#include "io/safetensors.h"
#include "tensor-source.h"

#include <memory>

namespace buoy {

// The factors of an FP8 weight, from NAME_scale_inv or NAME_scale beside it: one for all, one a row, or one for every block
// of the size the config gives (quantization_config.weight_block_size). In all of them a value is its code times its factor.
struct FoundScales {
    const SafetensorsTensor *        tensor = nullptr;
    std::shared_ptr<const Fp8Scales> scales;
};

FoundScales find_fp8_scales(const SafetensorsTensor & weight, const Safetensors & source, const HfJson & config);

} // namespace buoy
