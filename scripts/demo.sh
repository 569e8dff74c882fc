#!/usr/bin/env bash
# What the quickstart ends with: the bundled twins answer a question from passages, and one sees where they looked.
# Anything given replaces the passages and the question: scripts/demo.sh "1. … 2. … Who …?"
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bin=build/bin
out=build/demo
mkdir -p "$out"

prompt="${1:-1. Gundo travels by bicycle. He was born in March.
2. Sten has been a sailor for many years. He always dresses in brown.
3. Illuria is stormy and trades in oil.
4. The old clock in the square is always late.
5. Velda likes the colour purple. She takes care of a young duck.
How does Gundo travel?}"

head() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[ -t 1 ] && [ -z "${NO_COLOR:-}" ] || head() { printf '\n%s\n' "$*"; }

head "The prompt"
printf '%s\n' "$prompt"

head "buoy-mdm, a diffusion model: 16 masked positions, the surest is written first"
"$bin/llama-diffusion-cli" -p "$prompt" -n 16 --temp 0 --no-perf --diffusion-visual --attn-dump "$out/mdm.npz" --force

head "buoy-arm, its autoregressive twin: one token after the other"
"$bin/llama-diffusion-cli" -m buoy-arm -p "$prompt" -n 16 --temp 0 --no-perf --attn-dump "$out/arm.npz" --force

head "Where their attention went: the share that the first token receives, by layer"
"$bin/llama-attention" absorption --rule bos "$out/mdm.npz" "$out/arm.npz"

head "… and the share of the tokens that receive far more than the others (anchors)"
"$bin/llama-attention" absorption --rule std "$out/mdm.npz" "$out/arm.npz" --svg "$out/absorption.svg" --png "$out/absorption.png"

head "Do the diffusion model's anchors move from step to step?"
"$bin/llama-attention" floating "$out/mdm.npz"
"$bin/llama-attention" temporal "$out/mdm.npz" --svg "$out/temporal.svg" --png "$out/temporal.png" > "$out/temporal.txt"

head "Pictures and recordings to open: $out/temporal.svg, $out/absorption.svg, $out/mdm.npz (numpy.load)"
echo "What these numbers mean: docs/metrics.md. What the twins show and what not: models/README.md."
echo "The same for your own model: $bin/llama-diffusion-cli -m model.gguf -p \"…\" --attn-dump run.npz"
