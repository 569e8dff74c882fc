// Runs nothing where there is no Vulkan device: on a CPU these tests would pass and prove nothing.

#define DOCTEST_CONFIG_IMPLEMENT
#include "support/vulkan.h"

#include <doctest/doctest.h>

#include <cstdio>

int main(int argc, char ** argv) {
    constexpr int skipped = 77;
    if (!buoy::test::has_vulkan()) {
        std::puts("skipped: ggml finds no Vulkan device; Mesa's mesa-vulkan-drivers has one that needs no GPU");
        return skipped;
    }
    return doctest::Context(argc, argv).run();
}
