#include "model/fit.h"

#include <algorithm>
#include <numeric>

namespace buoy {

std::vector<size_t> divide_slots(int32_t n, const std::vector<double> & shares) {
    std::vector<double> ends(shares.size());
    std::partial_sum(shares.begin(), shares.end(), ends.begin());
    std::vector<size_t> devices;
    for (int32_t i = 0; i < n; i++) {
        const double at = ends.back() * (i + 0.5) / n;
        devices.push_back(static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), at) - ends.begin()));
    }
    return devices;
}

int32_t count_fitting(const SlotSizes & sizes, const MemoryUse & use, const std::vector<size_t> & free,
                      const std::vector<double> & shares) {
    const auto n_slots = static_cast<int32_t>(sizes.slots.size());
    for (int32_t n = n_slots; n > 0; n--) {
        const std::vector<size_t> devices = divide_slots(n, shares);
        std::vector<size_t>       needed(free.size());
        for (int32_t i = 0; i < n; i++) {
            const bool head = i == n - 1;
            size_t &   sum  = needed[devices[static_cast<size_t>(i)]];
            sum += sum == 0 ? use.compute : 0;
            sum += sizes.slots[static_cast<size_t>(n_slots - n + i)] + (head ? use.compute_head : use.kv_per_layer);
            sum += i == 0 && n == n_slots ? sizes.embed : 0;
        }
        bool fits = true;
        for (size_t i = 0; i < free.size(); i++) {
            fits = fits && needed[i] <= free[i];
        }
        if (fits) {
            return n;
        }
    }
    return 0;
}

} // namespace buoy
