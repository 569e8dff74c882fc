#pragma once

#include "support/paths.h"

#include <algorithm>
#include <cstdint>

#include <sys/resource.h>

namespace buoy::test {

// While it lives, programs that are started may have so many bytes of address space. Sanitizers need more than there are.
class MemoryLimit {
public:
    explicit MemoryLimit(uint64_t n_bytes) {
        getrlimit(RLIMIT_AS, &before_);
        if (!is_sanitized()) {
            rlimit limit   = before_;
            limit.rlim_cur = std::min<rlim_t>(n_bytes, before_.rlim_max);
            setrlimit(RLIMIT_AS, &limit);
        }
    }
    ~MemoryLimit() { setrlimit(RLIMIT_AS, &before_); }
    MemoryLimit(const MemoryLimit &)             = delete;
    MemoryLimit & operator=(const MemoryLimit &) = delete;

private:
    rlimit before_ = {};
};

} // namespace buoy::test
