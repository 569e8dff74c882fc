#!/usr/bin/env bash
# What the quickstart ends with: a small model of LLaDA's shape is made and denoised, step by step.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

model=build/demo.gguf
if [ ! -e "$model" ]; then
    build/bin/llama-diffusion-bench --make-model llada:E=64,L=4,H=4,V=320 -o "$model"
fi
echo "A diffusion model of LLaDA's architecture with random weights fills 24 masked positions, the surest first."
echo "Nobody trained it, so what it writes is noise: give a real model with -m (docs/models.md)."
build/bin/llama-diffusion-cli -m "$model" --raw -p "Once upon a time" -n 24 --diffusion-steps 6 --diffusion-visual "$@"
