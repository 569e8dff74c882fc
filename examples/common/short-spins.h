#pragma once

// GCC's OpenMP, with which ggml shares its work among threads, lets a thread that waits spin for milliseconds. On a busy machine
// that takes the time from the very thread waited for: a small model became twenty times slower. How long is read from the environment when the
// runtime is loaded, so the first call starts the program again, with short spins (GOMP_SPINCOUNT). Does nothing where the user has chosen
// (GOMP_SPINCOUNT, OMP_WAIT_POLICY), or without /proc.
void use_short_spins(char ** argv);
