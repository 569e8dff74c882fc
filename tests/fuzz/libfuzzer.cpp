// The targets for libFuzzer, which follows what an input reaches. BUOY_FUZZ_TARGET names the one; scripts/fuzz.sh starts it.

#include "target.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace buoy::fuzz;

extern "C" size_t LLVMFuzzerMutate(uint8_t * data, size_t size, size_t size_max);

namespace {

const Target & chosen() {
    static const Target * target = [] {
        const char *   name  = std::getenv("BUOY_FUZZ_TARGET");
        const Target * found = find_target(name != nullptr ? name : "");
        if (found == nullptr) {
            std::fputs("buoy-libfuzzer: BUOY_FUZZ_TARGET names no target; buoy-fuzz --list has them\n", stderr);
            std::exit(2);
        }
        scratch_dir();
        return found;
    }();
    return *target;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size) {
    run_input(chosen(), std::string(reinterpret_cast<const char *>(data), size));
    return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t * data, size_t size, size_t size_max, unsigned seed) {
    Random random(seed);
    if (below(random, 2) == 0) {
        return LLVMFuzzerMutate(data, size, size_max);
    }
    std::string input(reinterpret_cast<const char *>(data), size);
    chosen().mutate(input, random);
    const size_t length = std::min(input.size(), size_max);
    std::memcpy(data, input.data(), length);
    return length;
}
