#pragma once

// Registers of bytes, as the instruction set that this file is compiled for has them.

#if defined(__AVX2__)
#include "kernel/simd/sets/bytes-x86.h"
#elif defined(__aarch64__)
#include "kernel/simd/sets/bytes-neon.h"
#endif
