// Included before ggml's AMX kernels. Older GCCs believe that ldtilecfg reads 8 bytes (GCC bug 114098): the stores to the other 56
// of a configuration were left out, and the first tile instruction after it is illegal then.
#pragma once

#ifdef __AMX_TILE__
#include <immintrin.h>
#define _tile_loadconfig(config) __asm__ volatile("ldtilecfg\t%X0" ::"m"(*(const char(*)[64])(config)))
#endif
