#!/usr/bin/env bash
# What the quickstart ends with: the two bundled models answer a question from ten passages, then one sees what they attended to and
# what happens when they can't attend to the answer. Every conclusion is computed from the numbers above it.
# An argument replaces the passages and the question: scripts/demo.sh "1. … 2. … Who …?"
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bin=build/bin
out=build/demo
data=models/heldout-500.jsonl
mkdir -p "$out"

terminal=no
[ ! -t 0 ] || [ ! -t 1 ] || terminal=yes
title() { printf '\n%s\n' "$*"; }
[ $terminal = no ] || [ -n "${NO_COLOR:-}" ] || title() { printf '\n\033[1m%s\033[0m\n' "$*"; }
say() { printf '%s\n' "$*" | fold -s -w 80 | sed 's/ *$//'; }
lower() { printf '%s' "$1" | tr '[:upper:]' '[:lower:]'; }

# The first question of the file, its numbered passages, and the right answer.
item="$(sed -n 1p "$data")"
gold="$(printf '%s\n' "$item" | sed 's/.*"answers": \["\([^"]*\)".*/\1/')"
prompt="$(printf '%s\n' "$item" | grep -o '"text": "[^"]*"' | sed 's/^"text": "//; s/"$//' | awk '{ print NR ". " $0 }'
    printf '%s\n' "$item" | sed 's/.*"question": "\([^"]*\)".*/\1/')"
if [ $# -gt 0 ]; then
    prompt="$1"
    gold=""
fi
printf '%s' "$prompt" > "$out/prompt.txt"

title "The prompt"
[ $# -gt 0 ] || say "The first of the 500 held-out questions in $data, with its ten passages:"
printf '%s\n' "$prompt" | fold -s -w 80 | sed 's/ *$//'

title "1. Both models answer"
live=()
say "buoy-mdm, a diffusion model, starts from 64 masks and fills in, at each step, the position it is most confident about. buoy-arm, its autoregressive twin, has the same size and tokenizer, but writes from left to right and sees only the tokens before it."
# answer MODEL NAME [FLAG…]: runs it and keeps what it says
answer() {
    local model="$1" name="$2"
    shift 2
    "$bin/llama-diffusion-cli" -m "$model" -f "$out/prompt.txt" -n 64 --temp 0 --no-perf --attn-dump "$out/$name.npz" \
        --force "$@" > "$out/$name.txt"
}
[ $terminal = no ] || live=(--diffusion-visual --diffusion-visual-delay 40)
answer buoy-mdm mdm --diffusion-block-length 64 ${live[@]+"${live[@]}"}
answer buoy-arm arm
echo
right=0
for name in mdm arm; do
    text="$(tr '\n' ' ' < "$out/$name.txt" | sed 's/ *$//')"
    say "buoy-$name: $text"
    case "$(lower "$text")" in *"$(lower "$gold")"*) right=$((right + 1)) ;; esac
done
if [ -n "$gold" ]; then
    echo
    say "→ The right answer is \"$gold\": $right of 2 models say it."
fi

# The quickstart builds first what the answers need. These are for the rest.
missing=()
for program in llama-attention llama-diffusion-eval; do
    [ -x "$bin/$program" ] || missing+=(--target "$program")
done
if [ ${#missing[@]} -gt 0 ]; then
    echo
    say "Compiling the programs for the next parts (only this first time):"
    cmake --build build --parallel "${missing[@]}" >&2
fi

title "2. What do they attend to, step by step?"
say "Attention weights say how much each token draws on every other one. An anchor is a position that receives far more than the rest: more than 3 standard deviations above the mean (z > 3), here in the mean of all layers. Each row groups consecutive steps with the same anchors; z runs from the weakest to the strongest of them."
echo
"$bin/llama-attention" temporal "$out/mdm.npz" "$out/arm.npz" --svg "$out/temporal.svg" | tee "$out/temporal.txt"

title "3. Is the first token an attention sink?"
say "Many models park attention on the first token even though it carries no meaning. An even share is what each position would get if attention were uniform. (In a left-to-right model early tokens get more anyway, because more positions can attend to them.)"
echo
"$bin/llama-attention" absorption --rule bos "$out/mdm.npz" "$out/arm.npz" > "$out/absorption.txt"
sed '1,/^$/d' "$out/absorption.txt" # the overall means are in the last lines

title "4. Does a model still need the passage when it writes?"
say "The first 40 held-out questions, five passages each, asked twice: as they are, and with an edit, gold-unseen: the positions that write the answer can't attend to the passage that holds it. All others still can."
echo
rm -f "$out/results.jsonl"
"$bin/llama-diffusion-eval" qa -m buoy-mdm,buoy-arm -d "$data" --template models/qa-template.txt -n 8 --limit 40 \
    --no-closed-book --attn-edit gold-unseen -o "$out/results.jsonl" > "$out/results.txt" 2> "$out/results.err" ||
    { cat "$out/results.err" >&2; exit 1; }
sed '/^$/q' "$out/results.txt"               # the scores
sed -n '/^→/,$p' "$out/results.txt"          # what the edit changed

title "5. Look for yourself"
"$bin/llama-attention" report "$out/mdm.npz" "$out/arm.npz" -o "$out/report.html" --max-size 40M --force > /dev/null
cat <<END
A page of both runs, to explore token by token:
  $PWD/$out/report.html

Next steps
  $bin/llama-diffusion-cli -p "Tell a story about Mira and a fox." -n 64 \\
      --diffusion-block-length 64 --diffusion-visual
  models/README.md   what these two models show, and what they are too small for
  docs/metrics.md    what the numbers mean
END

# Only where somebody sits in front of it.
open=""
for program in xdg-open open; do
    [ -n "$open" ] || ! command -v "$program" > /dev/null || open="$program"
done
if [ $terminal = yes ] && [ -z "${CI:-}" ] && [ -n "$open" ]; then
    printf '\nOpen the page in a browser? [y/N] '
    read -r reply || reply=n
    case "$reply" in [yY]*) "$open" "$out/report.html" > /dev/null 2>&1 || true ;; esac
fi
