#!/usr/bin/env bash
# Every mode of llama-diffusion-bench with the programs of two builds in turn. Prints one Markdown table: the shortest time of each, and
# their ratio. Exit code 1 if the new build is more than 3 % slower anywhere. Nothing else should compute meanwhile.
set -euo pipefail
caller="$PWD"
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
    cat <<'TEXT'
usage: scripts/compare-bench.sh OLD_BIN NEW_BIN [-r ROUNDS] [-t THREADS] [--only WORD]
  OLD_BIN, NEW_BIN  folders of the two builds' programs
  -r ROUNDS         how often each program runs in each mode (default 5), the two taking turns at going first
  -t THREADS        threads of both (default 2)
  --only WORD       only modes with that in their name
TEXT
}

bins=() rounds=5 threads=2 only=""
while [ $# -gt 0 ]; do
    case "$1" in
        -r | -t | --only)
            [ $# -gt 1 ] || { usage >&2; die "$1 needs a value"; }
            case "$1" in
                -r) rounds="$2" ;;
                -t) threads="$2" ;;
                --only) only="$2" ;;
            esac
            shift
            ;;
        -h | --help) usage; exit 0 ;;
        -*) usage >&2; die "unknown argument: $1" ;;
        /*) bins+=("$1") ;;
        *) bins+=("$caller/$1") ;;
    esac
    shift
done
[ ${#bins[@]} = 2 ] || { usage >&2; die "two folders of programs are needed"; }
case "$rounds$threads" in *[!0-9]*) die "-r and -t want numbers" ;; esac
for bin in "${bins[@]}"; do
    [ -x "$bin/llama-diffusion-bench" ] || die "$bin/llama-diffusion-bench is not there"
done
bench="${bins[0]}/llama-diffusion-bench"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
models="$work"

shape=E=512,L=8,H=8,FF=1536,V=8000
slower=""

# measure WHICH: appends the milliseconds of one run to its file.
measure() {
    "${bins[$1]}/llama-diffusion-bench" "${flags[@]}" -o json >"$work/json" 2>"$work/log" || { cat "$work/log" >&2; die "$name failed"; }
    sed -n 's/.*"samples_ms":\[\([^]]*\)\].*/\1/p' "$work/json" | tr ',' '\n' >>"$work/samples.$1"
}

# mode NAME MODEL FLAGS…
mode() {
    local name="$1" round
    case "$1" in *"$only"*) ;; *) return 0 ;; esac
    make_random_model "$2"
    shift 2
    local flags=(-m "$model" -t "$threads" "$@")
    : >"$work/samples.0"
    : >"$work/samples.1"
    say "$name"
    for ((round = 0; round < rounds; round++)); do
        measure $((round % 2))
        measure $((1 - round % 2))
    done
    local old new ratio
    old="$(sort -g "$work/samples.0" | head -n 1)"
    new="$(sort -g "$work/samples.1" | head -n 1)"
    ratio="$(awk -v old="$old" -v new="$new" 'BEGIN { printf "%.3f", new / old }')"
    printf '| %s | %.1f | %.1f | %s |\n' "$name" "$old" "$new" "$ratio"
    if awk -v ratio="$ratio" 'BEGIN { exit !(ratio > 1.03) }'; then
        slower="$slower, $name"
    fi
}

echo "| mode | old, ms | new, ms | new / old |"
echo "|---|---:|---:|---:|"
answer=(-n 64 --steps 16 -r 4)
mode "full attention, exact" "llada:$shape,TYPE=q4_0" "${answer[@]}" --cache none
mode "full attention, prefix" "llada:$shape,TYPE=q4_0" -n 64 --steps 32 -r 4 --cache prefix
mode "full attention, dual" "llada:$shape,TYPE=q4_0" -n 64 --steps 64 -r 4 --cache dual
mode "full attention, F32 weights" "llada:$shape,TYPE=f32" "${answer[@]}" --cache none
mode "full attention, Q8_0 weights" "llada:$shape,TYPE=q8_0" "${answer[@]}" --cache none
mode "full attention, Q4_K weights" "llada:$shape,TYPE=q4_K" "${answer[@]}" --cache none
mode "full attention, unpacked" "llada:$shape,TYPE=q4_0" "${answer[@]}" --cache none --unpack f16
mode "full attention, flash off" "llada:$shape,TYPE=q4_0" "${answer[@]}" --cache none -fa off
mode "full attention, flash on, Q8_0 keys and values" "llada:$shape,TYPE=q4_0" -n 64 --steps 64 -r 4 --cache dual -fa on -ctk q8_0 -ctv q8_0
mode "full attention, ggml's kernels" "llada:$shape,TYPE=q4_0" "${answer[@]}" --cache none --kernels ggml
mode "full attention, temperature" "llada:$shape,TYPE=q4_0" -n 64 --steps 64 -r 4 --cache dual --temp 0.8
mode "full attention, threshold" "llada:$shape,TYPE=q4_0" -n 32 --threshold 0.9 -r 4 --cache dual
mode "timesteps, dream" "dream:$shape,TYPE=q4_0" "${answer[@]}" --block-length 0 --cache none
mode "block-causal, blocks of 4" "sdar:$shape,B=4,TYPE=q4_0" -n 64 --steps 0 --block-length 0 -r 4
mode "block-causal, blocks of 32" "sdar:$shape,B=32,TYPE=q4_0" -n 128 --steps 64 --block-length 0 -r 4
mode "block-causal, experts" "sdar_moe:$shape,B=4,TYPE=q4_0" -n 64 --steps 0 --block-length 0 -r 4
mode "autoregressive" "qwen3:$shape,TYPE=q4_0" -n 128 -r 4
mode "autoregressive, F32 weights" "qwen3:$shape,TYPE=f32" -n 64 -r 4
mode "autoregressive, temperature" "qwen3:$shape,TYPE=q4_0" -n 128 -r 4 --temp 0.8
mode "recording, mean over heads" "llada:$shape,TYPE=q4_0" -n 32 --steps 16 -r 4 --attn heads
mode "recording, received" "llada:$shape,TYPE=q4_0" -n 32 --steps 16 -r 4 --attn received
mode "recording, regions" "llada:$shape,TYPE=q4_0" -n 32 --steps 16 -r 4 --attn regions
mode "recording, whole" "llada:$shape,TYPE=q4_0" -n 32 --steps 16 -r 4 --attn none
mode "one pass of 512, all rows" "llada:$shape,TYPE=q4_0" --forward 512 -r 10
mode "one pass of 512, 32 rows" "llada:$shape,TYPE=q4_0" --forward 512 --rows 32 -r 10
mode "32 rows against 2048 stored" "llada:$shape,TYPE=q4_0" --forward 2048 --rows 32 --cache dual -r 60

[ -z "$slower" ] || die "more than 3 % slower: ${slower#, }"
