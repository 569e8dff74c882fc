// Compiled once for each instruction set, under the name that BUOY_KERNEL_TABLE gives it; BUOY_KERNEL_SET is which.

#include "kernel/kernels.h"

#if (defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)) || defined(__ARM_FEATURE_DOTPROD)

#include "kernel/simd/attention.h"
#include "kernel/simd/mix.h"
#include "kernel/simd/multiply.h"
#include "kernel/simd/pack.h"
#include "kernel/simd/peak.h"
#include "kernel/simd/summary.h"

namespace buoy {

namespace {

template <class Format> constexpr WeightKernel weight_kernel() {
    using Block           = TileBlock<Format>;
    constexpr int64_t fit = static_cast<int64_t>(sizeof(WeightTile) / sizeof(Block));
    return {fit < tile_blocks_max ? fit / 8 * 8 : tile_blocks_max, unpack<Format>, multiply<Block>, multiply_two<Block>,
            multiply_one<Format>};
}

constexpr KernelTable table = {
    KernelSet::BUOY_KERNEL_SET,
    {peak_sums * lanes, peak_floats},
    {peak_sums * peak_bytes_each, peak_bytes},
    pack,
    gate,
    gate_gelu,
    attend,
    weigh,
    exponentials,
    summarize,
    add_mixed,
    weight_kernel<Q4_0>(),
    weight_kernel<Q4_1>(),
    weight_kernel<Q5_0>(),
    weight_kernel<Q5_1>(),
    weight_kernel<Q8_0>(),
    weight_kernel<Q2_K>(),
    weight_kernel<Q3_K>(),
    weight_kernel<Q4_K>(),
    weight_kernel<Q5_K>(),
    weight_kernel<Q6_K>(),
    weight_kernel<IQ4_NL>(),
    weight_kernel<IQ4_XS>(),
    weight_kernel<MXFP4>(),
};

} // namespace

const KernelTable * BUOY_KERNEL_TABLE() { return &table; }

} // namespace buoy

#else

namespace buoy {

const KernelTable * BUOY_KERNEL_TABLE() { return nullptr; }

} // namespace buoy

#endif
