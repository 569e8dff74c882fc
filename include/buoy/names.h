#pragma once

#include "buoy/generate.h"

#include <cstddef>
#include <utility>

namespace buoy {

// What flags, JSON and recordings call the values of an enumeration.
template <typename T> using Name = std::pair<const char *, T>;

inline constexpr Name<KvType> kv_type_names[] = {{"f32", KvType::f32}, {"f16", KvType::f16}, {"q8_0", KvType::q8_0}};

inline constexpr Name<ModelMode> mode_names[] = {{"ar", ModelMode::ar}, {"diffusion", ModelMode::diffusion}};

inline constexpr Name<FlashAttention> flash_names[] = {
    {"on", FlashAttention::on}, {"off", FlashAttention::off}, {"auto", FlashAttention::automatic}};

inline constexpr Name<Unpack> unpack_names[] = {
    {"off", Unpack::off}, {"f16", Unpack::f16}, {"auto", Unpack::automatic}};

inline constexpr Name<Kernels> kernel_names[] = {
    {"auto", Kernels::automatic}, {"ours", Kernels::ours}, {"ggml", Kernels::ggml}};

inline constexpr Name<DiffusionCache> cache_names[] = {
    {"none", DiffusionCache::none},    {"prefix", DiffusionCache::prefix},   {"dual", DiffusionCache::dual},
    {"d2", DiffusionCache::d2},        {"elastic", DiffusionCache::elastic}, {"dllm", DiffusionCache::dllm},
    {"anchor", DiffusionCache::anchor}};

inline constexpr Name<Preset> preset_names[] = {
    {"exact", Preset::exact}, {"balanced", Preset::balanced}, {"fast", Preset::fast}};

inline constexpr Name<Tap> tap_names[] = {
    {"pattern", Tap::pattern}, {"scores", Tap::attn_scores}, {"q", Tap::rot_q}, {"k", Tap::rot_k}, {"v", Tap::v},
    {"resid", Tap::resid_post}};

inline constexpr Name<TapReduce> reduce_names[] = {{"none", TapReduce::none},
                                                   {"heads", TapReduce::heads},
                                                   {"received", TapReduce::received},
                                                   {"regions", TapReduce::regions}};

template <typename T, size_t N> constexpr const char * name_of(const Name<T> (&names)[N], T value) {
    for (const Name<T> & name : names) {
        if (name.second == value) {
            return name.first;
        }
    }
    return "";
}

} // namespace buoy
