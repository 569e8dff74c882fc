#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace buoy {

// What a model takes beside its weights, of each device that has a part of it.
struct MemoryUse {
    size_t kv_per_layer = 0; // the K/V store
    size_t compute      = 0; // buffers of a pass, anywhere
    size_t compute_head = 0; // more of them where the head is
};

// What a model needs by slots: its layers, then the head.
struct SlotSizes {
    size_t              embed = 0; // goes with the first layer if everything goes
    std::vector<size_t> slots;     // [L + 1]
};

// Which of the devices each of n slots is on: one after the other, as many as its share.
std::vector<size_t> divide_slots(int32_t n, const std::vector<double> & shares);

// How many slots, counted from the last, the devices can hold.
int32_t count_fitting(const SlotSizes & sizes, const MemoryUse & use, const std::vector<size_t> & free,
                      const std::vector<double> & shares);

} // namespace buoy
