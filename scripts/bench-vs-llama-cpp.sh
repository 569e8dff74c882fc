#!/usr/bin/env bash
# Ours and the pinned llama.cpp's own llama-diffusion-cli side by side, on the same random GGUFs, with the same number of
# forward passes. Prints one Markdown table; what happens meanwhile goes to standard error.
set -euo pipefail
caller="$PWD"
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
    cat <<'TEXT'
usage: scripts/bench-vs-llama-cpp.sh [--quick] [-r ROUNDS] [-t THREADS] [--build DIR]
  --quick      96 new tokens and 10 passes instead of 224 and 64, one round
  -r ROUNDS    rounds of theirs, then each of our modes (default 3); the table shows medians
  -t THREADS   threads of both (default 2)
  --build DIR  use a build that is there (configured with -DBUOY_UPSTREAM_PROGRAMS=llama-diffusion-cli) instead of making one
TEXT
}

quick=no rounds="" threads=2 dir=""
while [ $# -gt 0 ]; do
    case "$1" in
        --quick) quick=yes ;;
        -r | -t | --build)
            [ $# -gt 1 ] || { usage >&2; die "$1 needs a value"; }
            case "$1" in
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
bench_with llama-diffusion-cli

# CHAT=1: upstream always applies a chat template; this one adds nothing, so that the prompt has the tokens we count.
make_model() {
    local spec="llada:$1,TYPE=q4_0,CHAT=1"
    make_random_model "$spec"
}

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

# column NAME: that field of the one row of a CSV table.
column() { awk -F, -v name="$1" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) at = i } NR == 2 { print $at }'; }

run_ours() {
    local passes
    "$bench" -m "$model" -p "$n_prompt" -n "$n_new" --steps "$steps" --block-length "$block" -t "$threads" \
        -r 1 --no-warmup -o csv "$@" >"$work/ours"
    passes="$(column forwards <"$work/ours")"
    [ "$passes" -eq "$steps" ] || die "our program made $passes passes, expected $steps"
    column total_ms <"$work/ours"
}

# One line for each measurement: shape, mode, their milliseconds, ours.
measure() {
    local shape="$1" round ms mode flags
    make_model "$shape"
    for ((round = 1; round <= rounds; round++)); do
        say "$shape, round $round of $rounds: llama.cpp"
        ms="$(run_theirs)"
        while read -r mode flags; do
            say "$shape, round $round of $rounds: $mode"
            # shellcheck disable=SC2086
            echo "$shape|$mode|$ms|$(run_ours $flags </dev/null)" >>"$work/rows"
        done <<'MODES'
exact --cache none
prefix --cache prefix
dual --cache dual
MODES
    done
}

cpu_name() {
    if [ -r /proc/cpuinfo ]; then
        sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1
    else
        sysctl -n machdep.cpu.brand_string 2>/dev/null || uname -m
    fi
}

print_table() {
    echo "| model (Q4_0) | ours | passes | llama.cpp ms/pass | ours ms/pass | ours tokens/s | times faster | each round |"
    echo "| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |"
    awk -F'|' -v steps="$steps" -v tokens="$n_new" '
        function median(list, n,    i, j, t) {
            for (i = 2; i <= n; i++)
                for (j = i; j > 1 && list[j - 1] > list[j]; j--) { t = list[j]; list[j] = list[j - 1]; list[j - 1] = t }
            return n % 2 ? list[(n + 1) / 2] : (list[n / 2] + list[n / 2 + 1]) / 2
        }
        {
            key = $1 " | " $2
            if (!(key in count)) order[++n_keys] = key
            i = ++count[key]
            theirs[key, i] = $3; ours[key, i] = $4; ratio[key, i] = $3 / $4
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

measure "E=1024,L=12,H=16,FF=3072,V=128000"
measure "E=1024,L=24,H=16,FF=3072,V=8000"
print_table
echo
echo "prompt $n_prompt + $n_new tokens, block $block, $steps passes, $threads threads, $rounds rounds; $(cpu_name), $(cores) cores;" \
    "load $(uptime | sed 's/.*load average[s]*: *//'); $("$bench" --version); llama.cpp $(pin BUOY_PIN_VERSION)"
