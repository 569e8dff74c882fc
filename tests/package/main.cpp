#include "buoy/device.h"
#include "buoy/version.h"

#include <cstdio>

// Listing the devices runs ggml, so that a library missing from the package shows at link time or here.
int main() {
    const auto devices = buoy::list_devices();
    std::printf("buoy %s, %zu devices\n", buoy::version(), devices.size());
    return devices.empty() ? 1 : 0;
}
