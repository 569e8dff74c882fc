#!/usr/bin/env bash
# From a fresh checkout to the first answer: installs what is missing, builds, runs the demo. The first time, what the first answer
# needs is built first, then what the demo needs, and the other programs when it is over.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

install_packages build
if [ -e build/CMakeCache.txt ]; then
    build default # as it was configured
else
    build default -DBUOY_BUILD_TESTS=OFF --target llama-diffusion-cli
    say "the first program is built; meet the bundled model while the demo's other one is compiled:"
    build/bin/llama-diffusion-cli -p "Tell a story about Mira and a fox." -n 64 --temp 0
    build default --target llama-attention
fi
scripts/demo.sh "$@"
if [ ! -x build/bin/llama-diffusion-convert ]; then
    say "building the other programs: converter, evaluation, benchmark (Ctrl-C stops this, cmake --build build resumes it)"
    build default
fi
