#!/usr/bin/env bash
# Makes every picture of README.md and docs/ anew, from the bundled models, with the programs in build/bin:
#   scripts/make-figures.sh [--only NAME] [--out DIR] [--list]
# Into docs/images, or DIR, which also gets the numbers a figure was drawn from as NAME.json. The eval figures ask 500 questions in three
# runs, the frontier asks for 200 stories fourteen times: each takes a quarter of an hour on two cores. report.png needs Python and Chromium. The same build on the same machine makes the same bytes.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

names="visual temporal report eval-conditions eval-gold-by-layer eval-retrieval-heads eval-gold-position eval-noise frontier-stories"
only="" out=docs/images bin=build/bin
while [ $# -gt 0 ]; do
    case "$1" in
        --only) only="${2:?--only needs a name}"; shift ;;
        --out) out="${2:?--out needs a directory}"; shift ;;
        --list) printf '%s\n' "$names" | tr ' ' '\n'; exit ;;
        *) die "unknown argument $1, expected --only NAME, --out DIR or --list" ;;
    esac
    shift
done
case " $names " in *" ${only:-visual} "*) ;; *) die "no figure is called $only; they are $names" ;; esac
[ -x "$bin/llama-attention" ] || die "$bin/llama-attention is not there; build first (scripts/quickstart.sh)"
mkdir -p "$out"
out="$(cd "$out" && pwd)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

wanted() { [ -z "$only" ] || [ "$only" = "$1" ]; }

# The first held-out question with its ten passages, as scripts/demo.sh asks it.
question() {
    local item
    item="$(sed -n 1p models/heldout-500.jsonl)"
    printf '%s\n' "$item" | grep -o '"text": "[^"]*"' | sed 's/^"text": "//; s/"$//' | awk '{ print NR ". " $0 }'
    printf '%s\n' "$item" | sed 's/.*"question": "\([^"]*\)".*/\1/'
}

# record MODEL NAME FLAG…
record() {
    local model="$1" name="$2"
    shift 2
    "$bin/llama-diffusion-cli" -m "$model" -f "$work/prompt.txt" --temp 0 --no-perf --attn-dump "$work/$name.npz" "$@" > /dev/null
}

if wanted visual; then
    (cd "$work" && "$ROOT/$bin/llama-diffusion-cli" -p "Tell a story about Mira and a fox." -n 64 --diffusion-block-length 64 \
        --diffusion-visual-out visual.svg > /dev/null)
    cp "$work/visual.svg" "$out/visual.svg"
fi

if wanted temporal; then
    question > "$work/prompt.txt"
    record buoy-mdm mdm -n 64 --diffusion-block-length 64
    "$bin/llama-attention" temporal "$work/mdm.npz" --svg "$out/temporal.svg" > /dev/null
    [ "$out" = "$ROOT/docs/images" ] || "$bin/llama-attention" temporal "$work/mdm.npz" --json > "$out/temporal.json"
fi

if wanted report; then # the page of docs/report.md, a word of the question selected
    printf '%s' "1. Gundo travels by bicycle. 2. Sten travels by ferry. How does Sten travel?" > "$work/prompt.txt"
    record buoy-mdm mdm -n 16 --attn-reduce none -s 1
    record buoy-arm arm -n 16 --attn-reduce none -s 1
    "$bin/llama-attention" report "$work/mdm.npz" "$work/arm.npz" -o "$work/twins.html" > /dev/null
    PYTHONPATH=tests/report python3 - "$work/twins.html" "$out/report.png" <<'END'
import sys
from chromium import Browser, find_chromium
if not find_chromium():
    sys.exit("report.png is a picture of the page in Chromium, which is not there")
with Browser() as browser:
    browser.open(sys.argv[1], 1280, 1620)
    browser.run("[...document.querySelectorAll('.pane')[0].querySelectorAll('.text .token')].filter((t) => t.textContent.trim() === 'Sten').pop().click()")
    browser.run("document.activeElement.blur()")
    browser.screenshot(sys.argv[2], whole=False)
END
fi

# ask NAME FLAG…: an experiment of docs/evaluation.md, once; its figures are in $work/NAME
ask() {
    local name="$1"
    shift
    [ -d "$work/$name" ] || "$bin/llama-diffusion-eval" qa -m buoy-mdm,buoy-arm -d models/heldout-500.jsonl \
        --template models/qa-template.txt -n 8 "$@" -o "$work/$name.jsonl" --figures "$work/$name" > "$work/$name.txt"
}

edits=(--attn-edit sinks-dropped --attn-edit anchors-pinned --attn-edit gold-unseen)
for figure in conditions gold-by-layer retrieval-heads; do
    if wanted "eval-$figure"; then
        ask five --passages 5 --attn-metrics "${edits[@]}"
        cp "$work/five/$figure.svg" "$out/eval-$figure.svg"
    fi
done
for figure in gold-position noise; do
    if wanted "eval-$figure"; then
        ask moved --passages 10 --no-closed-book --gold-position all --noise 0-9 --diffusion-threshold 0.9
        cp "$work/moved/$figure.svg" "$out/eval-$figure.svg"
    fi
done

# The tables of docs/frontier.md. What is resumed is shown without its speed, so the figure is the same on every machine.
frontier() {
    "$bin/llama-diffusion-eval" frontier -m buoy-mdm -d models/heldout-stories-200.json -n 64 -o "$work/frontier.jsonl" \
        --method "balanced: threshold=0.9 cache=anchor tau_stale=0.005" \
        --method "fast: algorithm=plus-one threshold=0.9 cache=anchor tau_stale=0.08" \
        --method "threshold: threshold=0.9" --method "plus-one: algorithm=plus-one" --method "localleap: algorithm=localleap" \
        --method "klass: algorithm=klass" --method "dawn: algorithm=dawn" --method "wino: algorithm=wino" \
        --method "prefix: cache=prefix threshold=0.9" --method "dual: cache=dual threshold=0.9" \
        --method "d2: cache=d2 threshold=0.9 sigma=none" --method "elastic: cache=elastic threshold=0.9" \
        --method "dllm: cache=dllm threshold=0.9 sigma=none" "$@" > "$work/frontier.txt"
}
if wanted frontier-stories; then
    frontier
    frontier --figures "$work/frontier"
    cp "$work/frontier/frontier.svg" "$out/frontier-stories.svg"
fi
