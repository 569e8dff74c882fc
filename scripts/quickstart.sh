#!/usr/bin/env bash
# From a fresh checkout to the first answer: installs what is missing, builds, runs.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

install_packages build
if [ -e build/CMakeCache.txt ]; then
    build default # as it was configured
else
    build default -DBUOY_BUILD_TESTS=OFF
fi

if [ -x scripts/demo.sh ]; then
    exec scripts/demo.sh "$@"
fi
say "built, the programs are in build/bin:"
exec build/bin/llama-diffusion-cli --version
