#include "kernel/exponentials.h"

#include "kernel/kernels.h"

#include <cmath>

namespace buoy {

void exponentials(const float * x, float * to, int64_t n, float factor, float offset) {
    const KernelTable * table = kernel_table();
    if (table != nullptr) {
        table->exponentials(x, to, n, factor, offset);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        to[i] = std::exp(factor * (x[i] - offset));
    }
}

} // namespace buoy
