#!/usr/bin/env bash
# From a fresh checkout to the first answer: installs what is missing, builds, runs the demo. The first time, only the program that
# answers is built before; the demo builds what its other parts need, and the rest is built when it is over.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

install_packages build
if [ -e build/CMakeCache.txt ]; then
    build default # as it was configured
else
    build default -DBUOY_BUILD_TESTS=OFF --target llama-diffusion-cli
fi
scripts/demo.sh "$@"
if [ ! -x build/bin/llama-diffusion-convert ]; then
    say "building the other programs: converter, benchmark (Ctrl-C stops this, cmake --build build resumes it)"
    build default
fi
