#!/usr/bin/env bash
# The programs of two builds, the same files and flags: are texts, logits and recordings equal to the bit? Prints Markdown tables;
# what happens meanwhile goes to standard error. Exit code 1 if anything differs.
set -euo pipefail
caller="$PWD"
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

if [ $# != 2 ]; then
    say "usage: scripts/compare-runs.sh OLD_BIN NEW_BIN, the folders of the two builds' programs"
    exit 1
fi
absolute() { case "$1" in /*) echo "$1" ;; *) echo "$caller/$1" ;; esac; }
old="$(absolute "$1")" new="$(absolute "$2")"
for program in llama-diffusion-cli llama-diffusion-bench llama-diffusion-convert llama-diffusion-eval llama-attention; do
    for bin in "$old" "$new"; do
        [ -x "$bin/$program" ] || die "$bin/$program is not there"
    done
done
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
mkdir "$work/old" "$work/new"
export OMP_WAIT_POLICY=passive

# same KIND OLD NEW: a word for the table. What the old one has must be in the new one; new fields and members may join.
cat >"$work/same.py" <<'PYTHON'
import json, sys, zipfile

volatile = {"version", "timings", "recording", "seconds", "load_ms", "path"}

def difference(old, new, where=""):
    if isinstance(old, dict) and isinstance(new, dict):
        for key, value in old.items():
            if key in volatile:
                continue
            if key not in new:
                return where + key + " is missing"
            found = difference(value, new[key], where + key + " ")
            if found:
                return found
        return None
    return None if old == new else where.strip() or "value"

def json_lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]

def npz(old_path, new_path):
    with zipfile.ZipFile(old_path) as old, zipfile.ZipFile(new_path) as new:
        missing = set(old.namelist()) - set(new.namelist())
        if missing:
            return min(missing) + " is missing"
        for name in old.namelist():
            if name == "meta.json":
                found = difference(json.loads(old.read(name)), json.loads(new.read(name)))
            else:
                found = None if old.read(name) == new.read(name) else name
            if found:
                return found
    return None

kind, old, new = sys.argv[1:]
if kind == "npz":
    found = npz(old, new)
elif kind == "json":
    a, b = json_lines(old), json_lines(new)
    found = "number of lines" if len(a) != len(b) else next(filter(None, map(difference, a, b)), None)
else:
    with open(old, "rb") as a, open(new, "rb") as b:
        found = None if a.read() == b.read() else "bytes"
print("**differs: " + found + "**" if found else "equal")
PYTHON

n_equal=0 n_other=0

# compare KIND FILE PROGRAM ARGS…: both programs in their own folder, which write FILE (or standard output, for "out") there.
# Sets cell.
compare() {
    local kind="$1" file="$2" program="$3" codes=()
    shift 3
    for which in old new; do
        local bin="$old" code=0
        [ $which = old ] || bin="$new"
        (cd "$work/$which" && rm -f "$file" && "$bin/$program" "$@" >out 2>err </dev/null) || code=$?
        codes+=("$code")
    done
    if [ "${codes[*]}" = "0 0" ]; then
        cell="$(python3 "$work/same.py" "$kind" "$work/old/$file" "$work/new/$file")"
    elif [ "${codes[0]}" = "${codes[1]}" ]; then
        cell="both exit with ${codes[0]}"
        say "both fail: $(tail -n 1 "$work/old/err")"
    else
        cell="**exit codes ${codes[0]} and ${codes[1]}**"
        say "only one fails: $(tail -n 1 -q "$work/old/err" "$work/new/err" | tr '\n' ' ')"
    fi
    case "$cell" in \*\**) n_other=$((n_other + 1)) ;; equal) n_equal=$((n_equal + 1)) ;; esac
}

# model SPEC: makes a random model with the old program, once; prints its path.
model() {
    local path
    path="$work/$(printf '%s' "$1" | tr ':,=' '---').gguf"
    [ -e "$path" ] || "$old/llama-diffusion-bench" --make-model "$1" -o "$path" >&2
    echo "$path"
}

# run NAME MODEL [FLAGS…] [-- FLAGS OF THE RECORDING…]: a generation, the logits of the prompt, a recorded generation.
run() {
    local name="$1" model="$2" flags=() generation logits recording
    shift 2
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        flags+=("$1")
        shift
    done
    [ $# = 0 ] || shift
    case " ${flags[*]-} " in *" --infill "* | *" --tokens "* | *" -f "*) ;; *) flags+=(-p "$prompt") ;; esac
    flags=(-m "$model" -s 7 -t 2 "${flags[@]}")
    compare json out llama-diffusion-cli "${flags[@]}" --json
    generation="$cell"
    compare bytes logits.npy llama-diffusion-cli "${flags[@]}" --logits-out logits.npy
    logits="$cell"
    compare npz run.npz llama-diffusion-cli "${flags[@]}" --attn-dump run.npz --force "$@"
    recording="$cell"
    printf '| %s | %s | %s | %s |\n' "$name" "$generation" "$logits" "$recording"
}

# other NAME KIND FILE PROGRAM ARGS…
other() {
    local name="$1"
    shift
    compare "$@"
    printf '| %s | %s |\n' "$name" "$cell"
}

mdm="$ROOT/models/buoy-mdm.gguf" arm="$ROOT/models/buoy-arm.gguf"
prompt="$(sed -n 1p models/heldout-200.jsonl | python3 -c 'import json, sys; print(json.load(sys.stdin)["prompt"])')"
text="$work/text.txt"
printf 'Orla is a baker. She lives in Thuria and likes the colour green.\n%.0s' 1 2 3 4 5 6 7 8 >"$text"
cat >"$work/regions.json" <<'JSON'
{"regions": [{"name": "first", "tokens": [1, 9]}, {"name": "people", "text": "Oren"}]}
JSON

short=(-n 24 --ignore-eos --raw)
small=E=64,L=3,H=4,HKV=2,D=16

echo "| run | generation | logits | recording |"
echo "|---|---|---|---|"
run "buoy-mdm" "$mdm"
run "buoy-mdm, chat turn with a system message" "$mdm" -sys "Answer shortly." -n 32
run "buoy-mdm, entropy, positions and tokens drawn" "$mdm" "${short[@]}" --diffusion-algorithm entropy \
    --diffusion-alg-temp 0.3 --temp 0.7 --top-k 40 --top-p 0.9 -- --attn-reduce none --attn-dtype f32
run "buoy-mdm, origin" "$mdm" "${short[@]}" --diffusion-algorithm origin --diffusion-eps 0.001 --temp 1 -- --attn-taps scores,pattern
run "buoy-mdm, margin, 8 steps" "$mdm" "${short[@]}" --diffusion-algorithm margin --diffusion-steps 8 -- --attn-taps q,k,v,resid
run "buoy-mdm, random, min-p, bias" "$mdm" "${short[@]}" --diffusion-algorithm random --temp 0.5 --min-p 0.05 \
    --logit-bias 46-inf -- --attn-reduce received
run "buoy-mdm, sequential, blocks of 8" "$mdm" "${short[@]}" --diffusion-algorithm sequential --diffusion-block-length 8 -- \
    --attn-reduce regions
run "buoy-mdm, eb, gamma 0.5" "$mdm" "${short[@]}" --diffusion-algorithm eb --diffusion-eb-gamma 0.5
"$old/llama-diffusion-cli" tokens-freq -m "$mdm" -f "$text" -o "$work/frequencies.json" 2>/dev/null
run "buoy-mdm, pc, table of frequencies" "$mdm" "${short[@]}" --diffusion-algorithm pc --diffusion-pc-table "$work/frequencies.json"
run "buoy-mdm, pc-linear, dual" "$mdm" "${short[@]}" --diffusion-algorithm pc-linear --diffusion-cache dual \
    --diffusion-block-length 8 --diffusion-pc-table "$work/frequencies.json"
run "buoy-mdm, prefix cache, threshold" "$mdm" "${short[@]}" --diffusion-cache prefix --diffusion-block-length 8 --diffusion-threshold 0.7
run "buoy-mdm, dual cache, factor, refresh" "$mdm" "${short[@]}" --diffusion-cache dual --diffusion-block-length 8 \
    --diffusion-factor 1 --diffusion-cache-refresh 3 -- --attn-taps pattern,scores,q,k,v,resid --attn-reduce none
run "buoy-mdm, guidance" "$mdm" "${short[@]}" --diffusion-cfg-scale 1.5 --diffusion-block-length 8 -- --attn-reduce none
run "buoy-mdm, guidance with a dual cache" "$mdm" "${short[@]}" --diffusion-cfg-scale 0.5 --diffusion-cache dual --diffusion-block-length 12
run "buoy-mdm, Dream's timesteps" "$mdm" "${short[@]}" --diffusion-eps 0.01 --diffusion-steps 12
run "dream, timesteps in blocks, prefix" "$(model "dream:$small")" "${short[@]}" --diffusion-eps 0.01 --diffusion-cache prefix \
    --diffusion-block-length 8 --diffusion-steps 12
run "buoy-mdm, infill" "$mdm" --infill -p "Orla is a [[4]]. She lives in [[3]]." --raw
run "buoy-mdm, flash attention off, one thread" "$mdm" "${short[@]}" -fa off -t 1 -- --attn-heads 1,3 --attn-rows 4-20 --attn-reduce none
run "buoy-mdm, flash attention on, Q8_0 keys and values" "$mdm" "${short[@]}" -fa on -ctk q8_0 -ctv q8_0 --diffusion-cache dual \
    --diffusion-block-length 8
run "buoy-mdm, F32 keys and values, unpacked weights" "$mdm" "${short[@]}" -ctk f32 -ctv f32 --unpack f16 --diffusion-cache prefix \
    --diffusion-block-length 8
run "buoy-mdm, weights copied, not repacked" "$mdm" "${short[@]}" --no-mmap -nr
run "buoy-mdm, sinks dropped" "$mdm" "${short[@]}" --attn-edit "drop keys=sinks layers=0-2" -- --attn-reduce none
run "buoy-mdm, anchors biased, dual" "$mdm" "${short[@]}" --attn-edit "bias keys=anchors@0 +4" --diffusion-cache dual \
    --diffusion-block-length 8 -- --attn-edit-compare
run "buoy-mdm, regions edited and recorded" "$mdm" "${short[@]}" --attn-regions "$work/regions.json" \
    --attn-edit "bias keys=first -2" --attn-edit "drop keys=people heads=1" -- --attn-edit "drop keys=bos queries=answer steps=2-" --attn-reduce regions --attn-dtype f32
run "buoy-arm" "$arm" -- --attn-taps pattern,resid
run "buoy-arm, sampled, Q8_0 keys and values" "$arm" "${short[@]}" --temp 0.9 --top-p 0.95 -ctk q8_0 -ctv q8_0 -fa on
run "buoy-arm, sinks dropped" "$arm" "${short[@]}" --attn-edit "drop keys=sinks queries=1- layers=1-" -- --attn-reduce received
for arch in llama qwen2 qwen3 qwen3moe llada llada-moe dream rnd1; do
    run "$arch, F32" "$(model "$arch:$small")" "${short[@]}" -fa off -- --attn-taps pattern,scores,q,k,v,resid --attn-reduce none
done
for arch in llada2 sdar sdar_moe fast-dllm-v2; do
    run "$arch, F32, blocks of 4" "$(model "$arch:$small,B=4")" "${short[@]}" -- --attn-taps pattern,scores,q,k,v,resid --attn-reduce none
done
run "llada, Q8_0" "$(model "llada:$small,TYPE=q8_0")" "${short[@]}" --diffusion-block-length 8 --diffusion-cache dual
run "llada-moe, Q4_0" "$(model "llada-moe:$small,TYPE=q4_0")" "${short[@]}" --diffusion-block-length 8
run "qwen2, Q4_0" "$(model "qwen2:$small,TYPE=q4_0")" "${short[@]}"
run "sdar, Q4_0, threshold" "$(model "sdar:$small,B=4,TYPE=q4_0")" "${short[@]}" --diffusion-threshold 0.02
run "sdar, Q8_0, parts of a block, temperature" "$(model "sdar:$small,B=8,TYPE=q8_0")" "${short[@]}" --diffusion-sub-block-length 4 --temp 0.8
run "llada2, groups of experts, edits of written tokens" "$(model "llada2:$small,B=8,G=4,X=16")" "${short[@]}" \
    --diffusion-edit-threshold 0.01 --diffusion-threshold 0.005
run "sdar, no cache" "$(model "sdar:$small,B=4")" "${short[@]}" --diffusion-cache none --diffusion-cfg-scale 1
LC_ALL=C sed 's/llama/gemma/g' "$(model "llama:$small,TIED=1")" >"$work/gemma.gguf" # libllama's engine: the tensors are the same
run "gemma, through libllama" "$work/gemma.gguf" "${short[@]}" -fa off -- --attn-taps pattern,resid

echo
echo "| other programs | result |"
echo "|---|---|"
other "tokens-freq" bytes table.json llama-diffusion-cli tokens-freq -m "$mdm" -f "$text" -o table.json
for type in f32 f16 q8_0 q4_0 q4_k_m; do
    other "convert to $type" bytes model.gguf llama-diffusion-convert "$ROOT/models/hf/buoy-mdm" --outtype $type -o model.gguf --force
done
other "importance matrix" bytes mdm.imatrix llama-diffusion-convert imatrix -m "$mdm" -f "$text" -o mdm.imatrix
other "importance matrix of experts" bytes moe.imatrix llama-diffusion-convert imatrix -m "$(model "llada-moe:$small")" -f "$text" -o moe.imatrix
other "loss" bytes out llama-diffusion-convert loss -m "$mdm" -f "$text"
cat >"$work/questions.jsonl" <<'JSON'
{"id": "1", "question": "What does Orla do?", "answers": ["baker"], "passages": [{"text": "Orla is a baker.", "gold": true}, {"text": "Illuria is stormy and trades in oil."}]}
{"id": "2", "question": "For what is Illuria famous?", "answers": ["oil"], "passages": [{"text": "Thuria sells paper."}, {"text": "Illuria is stormy and trades in oil.", "gold": true}]}
JSON
other "questions, with edits and attention" json results.jsonl llama-diffusion-eval qa -m "$mdm,$arm" -d "$work/questions.jsonl" \
    -o results.jsonl --passages 1,2 --shuffle --drop-gold --attn-edit sinks-dropped --attn-edit gold-unseen --attn-metrics -n 16 -t 2
"$old/llama-diffusion-cli" -m "$mdm" "${short[@]}" -p "$prompt" -s 7 --attn-dump "$work/recording.npz" --attn-taps pattern,q,k,v,resid \
    --attn-reduce none --no-perf >/dev/null 2>&1
for metric in info absorption temporal floating sinks depth qk rollout; do
    other "llama-attention $metric" bytes out llama-attention $metric "$work/recording.npz"
done
other "llama-attention report" bytes page.html llama-attention report "$work/recording.npz" -o page.html

say "$n_equal equal, $n_other different"
[ $n_other = 0 ]
