#!/usr/bin/env bash
# What the quickstart ends with: the bundled twins answer a question from passages, one tells a story, and one sees where
# they looked. Anything given replaces the passages and the question: scripts/demo.sh "1. … 2. … Who …?"
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

live=() # a story is 64 steps: to be watched on a terminal, not to be read in a file
[ ! -t 2 ] || live=(--diffusion-visual)

head "The prompt"
printf '%s\n' "$prompt"

head "1. buoy-mdm, a diffusion model, answers"
echo "All 16 positions begin as masks (░ or _). Each step writes the one it is surest of; ∎ marks the end of the text."
"$bin/llama-diffusion-cli" -m buoy-mdm -p "$prompt" -n 16 --temp 0 --no-perf --diffusion-visual --attn-dump "$out/mdm.npz" --force

head "2. buoy-arm, its autoregressive twin, answers"
echo "Same size, same corpus, but it writes from left to right and sees only what stands before."
"$bin/llama-diffusion-cli" -m buoy-arm -p "$prompt" -n 16 --temp 0 --no-perf --attn-dump "$out/arm.npz" --force

head "3. buoy-mdm tells a story"
"$bin/llama-diffusion-cli" -m buoy-mdm -p "Tell a story about Mira and a fox." -n 64 --temp 0 --no-perf ${live[@]+"${live[@]}"}

head "4. Where did they look while they answered?"
echo "A model computes each token by looking at others; attention says how much at which. Many models rest it on the very first"
echo "token, although that one says nothing: a sink. This is the first token's share, by layer (of 100 tokens an even share is 1 %):"
echo
"$bin/llama-attention" absorption --rule bos "$out/mdm.npz" "$out/arm.npz"

head "5. Which other tokens stand out?"
echo "Anchors are tokens that receive far more attention than the rest. This is what all anchors receive together:"
echo
"$bin/llama-attention" absorption --rule std "$out/mdm.npz" "$out/arm.npz" --svg "$out/absorption.svg" --png "$out/absorption.png"

head "6. Do the diffusion model's anchors move from step to step?"
echo "In large diffusion models they are reported to float. Look at the last column; overlap 1 means: the same anchors as in the step before."
echo
"$bin/llama-attention" floating "$out/mdm.npz"
"$bin/llama-attention" temporal "$out/mdm.npz" --svg "$out/temporal.svg" --png "$out/temporal.png" > "$out/temporal.txt"
"$bin/llama-attention" report "$out/mdm.npz" "$out/arm.npz" -o "$out/report.html" --force > /dev/null

head "To go on"
cat <<END
$out/report.html     open it in a browser: both answers, and where each token looked
$out/temporal.svg    attention by position and step, a picture
$out/absorption.svg  the table of 5 as a picture
$out/mdm.npz         the recording, numpy.load opens it
models/README.md           what these two models show, and what they are too small to show
docs/metrics.md            what the numbers mean
Your own model: $bin/llama-diffusion-cli -m model.gguf -p "…" --attn-dump run.npz
END
