#!/usr/bin/env bash
# Writes docs/cli.md: what the programs say of themselves. After a change of flags, with the programs built.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}

{
    "$build/bin/llama-diffusion-cli" --help-markdown
    for name in llama-diffusion-eval llama-attention llama-diffusion-bench llama-diffusion-convert llama-diffusion-server; do
        echo
        "$build/bin/$name" --help-markdown
    done
} > docs/cli.md.new
mv docs/cli.md.new docs/cli.md
