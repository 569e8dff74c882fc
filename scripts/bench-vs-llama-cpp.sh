#!/usr/bin/env bash
# Ours and the pinned llama.cpp's own llama-diffusion-cli side by side, on the same random GGUFs, with the same number of
# forward passes. Prints one Markdown table; what happens meanwhile goes to standard error.
set -euo pipefail
caller="$PWD"
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
    cat <<'TEXT'
usage: scripts/bench-vs-llama-cpp.sh [--quick] [--types LIST] [--model SPEC]… [-r ROUNDS] [-t THREADS] [--build DIR]
  --quick       96 new tokens and 10 passes instead of 224 and 64, one round
  --types LIST  types of the weights: ggml's, or mixes such as q4_k_m (default q4_0)
  --model SPEC  architecture and shape as --make-model wants them, without TYPE, instead of the two of docs/benchmarks.md
  -r ROUNDS     rounds of theirs, then each of our modes (default 3); the table shows medians
  -t THREADS    threads of both (default 2)
  --build DIR   use a build that is there (configured with -DBUOY_UPSTREAM_PROGRAMS=llama-diffusion-cli) instead of making one
TEXT
}

quick=no types=q4_0 specs=() rounds="" threads=2 dir=""
while [ $# -gt 0 ]; do
    case "$1" in
        --quick) quick=yes ;;
        --types | --model | -r | -t | --build)
            [ $# -gt 1 ] || { usage >&2; die "$1 needs a value"; }
            case "$1" in
                --types) types="$2" ;;
                --model) specs+=("$2") ;;
                -r) rounds="$2" ;;
                -t) threads="$2" ;;
                --build) case "$2" in /*) dir="$2" ;; *) dir="$caller/$2" ;; esac ;;
            esac
            shift
            ;;
        -h | --help) usage; exit 0 ;;
        *) usage >&2; die "unknown argument: $1" ;;
    esac
    shift
done

# Upstream counts blocks over prompt and answer, and a block without masks still costs it one pass. With a prompt of one
# block it makes (blocks of the answer) × (steps a block) + 1 passes: that many steps are ours.
block=32 n_prompt=32 n_new=224 block_steps=9
[ $quick = no ] || { n_new=96 block_steps=3; }
[ ${#specs[@]} -gt 0 ] || specs=("llada:E=1024,L=12,H=16,FF=3072,V=128000" "llada:E=1024,L=24,H=16,FF=3072,V=8000")
[ -n "$rounds" ] || { if [ $quick = yes ]; then rounds=1; else rounds=3; fi; }
case "$rounds$threads" in *[!0-9]*) die "-r and -t want numbers" ;; esac
length=$((n_prompt + n_new))
steps_theirs=$((block_steps * length / block))
steps=$((block_steps * n_new / block + n_prompt / block))

if [ -z "$dir" ]; then
    dir=build
    install_packages build
    if [ -e build/CMakeCache.txt ]; then
        cmake --preset default -DBUOY_UPSTREAM_PROGRAMS=llama-diffusion-cli >&2
    else
        cmake --preset default -DBUOY_UPSTREAM_PROGRAMS=llama-diffusion-cli -DBUOY_BUILD_TESTS=OFF >&2
    fi
    cmake --build --preset default --parallel "$(cores)" --target llama-diffusion-bench >&2
fi
bench_with "$dir" llama-diffusion-cli

# Their milliseconds, loading excluded; stops unless they made as many passes as we do.
run_theirs() {
    local prompt passes
    prompt="$(printf "%${n_prompt}s" | tr ' ' 'a')" # a byte tokenizer: one token each
    "$theirs" -m "$model" -p "$prompt" -c "$length" -b "$length" -ub "$length" -t "$threads" \
        --diffusion-steps "$steps_theirs" --diffusion-block-length "$block" --diffusion-algorithm 4 \
        --temp 0 --top-k 1 >"$work/theirs" 2>&1 || { cat "$work/theirs" >&2; die "llama.cpp's program failed"; }
    passes="$(grep -ao 'diffusion step: ' "$work/theirs" | wc -l)"
    [ "$passes" -eq "$steps" ] || die "llama.cpp's program made $passes passes, expected $steps"
    sed -n 's/^.*total time: \([0-9.]*\)ms.*/\1/p' "$work/theirs" | tail -n 1
}

run_ours() {
    local passes
    "$bench" -m "$model" -p "$n_prompt" -n "$n_new" --steps "$steps" --block-length "$block" -t "$threads" \
        -r 1 --no-warmup -o csv "$@" >"$work/ours"
    passes="$(columns forwards <"$work/ours")"
    [ "$passes" -eq "$steps" ] || die "our program made $passes passes, expected $steps"
    columns total_ms <"$work/ours"
}

# One line for each measurement: model, type, mode, their milliseconds, ours.
measure() {
    local spec="$1" type="$2" round ms mode flags
    # CHAT=1: upstream always applies a chat template; this one adds nothing, so that the prompt has the tokens we count
    make_random_model "$spec,TYPE=$type,CHAT=1"
    for ((round = 1; round <= rounds; round++)); do
        say "$spec, $type, round $round of $rounds: llama.cpp"
        ms="$(run_theirs)"
        while read -r mode flags; do
            say "$spec, $type, round $round of $rounds: $mode"
            # shellcheck disable=SC2086
            echo "$spec|$type|$mode|$ms|$(run_ours $flags </dev/null)" >>"$work/rows"
        done <<'MODES'
exact --cache none
prefix --cache prefix
dual --cache dual
MODES
    done
}

print_table() {
    echo "| model | weights | ours | passes | llama.cpp ms/pass | ours ms/pass | ours tokens/s | times faster | each round |"
    echo "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | --- |"
    awk -F'|' -v steps="$steps" -v tokens="$n_new" "$awk_median"'
        {
            key = $1 " | " toupper($2) " | " $3
            if (!(key in count)) order[++n_keys] = key
            i = ++count[key]
            theirs[key, i] = $4; ours[key, i] = $5; ratio[key, i] = $4 / $5
        }
        END {
            for (k = 1; k <= n_keys; k++) {
                key = order[k]; n = count[key]; each = ""
                for (i = 1; i <= n; i++) {
                    a[i] = theirs[key, i]; b[i] = ours[key, i]; c[i] = ratio[key, i]
                    each = each (i > 1 ? " " : "") sprintf("%.2f", c[i])
                }
                mb = median(b, n)
                printf "| %s | %d | %.1f | %.1f | %.2f | %.2f | %s |\n", key, steps, median(a, n) / steps, mb / steps,
                    tokens * 1000 / mb, median(c, n), each
            }
        }' "$work/rows"
}

for spec in "${specs[@]}"; do
    for type in ${types//,/ }; do
        measure "$spec" "$type"
    done
done
print_table
echo
echo "prompt $n_prompt + $n_new tokens, block $block, $steps passes, $threads threads, $rounds rounds; $(measured_on);" \
    "llama.cpp $(pin BUOY_PIN_VERSION)"
