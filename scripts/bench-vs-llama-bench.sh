#!/usr/bin/env bash
# A block-causal model against the same weights decoded one token at a time by the pinned llama.cpp's llama-bench. Prints one
# Markdown table; what happens meanwhile goes to standard error.
set -euo pipefail
caller="$PWD"
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
    cat <<'TEXT'
usage: scripts/bench-vs-llama-bench.sh [--types LIST] [--block N] [-r ROUNDS] [-t THREADS] [--build DIR] [--prepare]
  --types LIST  types of the weights, default f32,f16,q8_0,q4_0
  --block N     length of a block, default 32
  -r ROUNDS     rounds of theirs, then ours (default 3); the table shows medians
  -t THREADS    threads of both (default 2)
  --build DIR   use a build that is there (configured with -DBUOY_UPSTREAM_PROGRAMS=llama-bench) instead of making one
  --prepare     only build and make the models
TEXT
}

types=f32,f16,q8_0,q4_0 block=32 rounds=3 threads=2 dir="" prepare=no
while [ $# -gt 0 ]; do
    case "$1" in
        --types | --block | -r | -t | --build)
            [ $# -gt 1 ] || { usage >&2; die "$1 needs a value"; }
            case "$1" in
                --types) types="$2" ;;
                --block) block="$2" ;;
                -r) rounds="$2" ;;
                -t) threads="$2" ;;
                --build) case "$2" in /*) dir="$2" ;; *) dir="$caller/$2" ;; esac ;;
            esac
            shift
            ;;
        --prepare) prepare=yes ;;
        -h | --help) usage; exit 0 ;;
        *) usage >&2; die "unknown argument: $1" ;;
    esac
    shift
done
case "$block$rounds$threads" in *[!0-9]*) die "--block, -r and -t want numbers" ;; esac

if [ -z "$dir" ]; then
    dir=build
    install_packages build
    cmake --preset default -DBUOY_UPSTREAM_PROGRAMS=llama-bench >&2
    cmake --build --preset default --parallel "$(cores)" --target llama-diffusion-bench >&2
fi
bench_with llama-bench

# sdar and qwen3 have the same tensors, and the same seed fills them alike.
make_model() {
    local spec="$1:E=1024,L=24,H=16,FF=3072,V=8000,TYPE=$2"
    [ "$1" = qwen3 ] || spec="$spec,B=$block"
    make_random_model "$spec"
}

# columns NAME: that field of every row of a CSV table without quoted commas.
columns() {
    awk -F, -v name="$1" '{ gsub(/"/, "") } NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) at = i } NR > 1 { print $at }'
}

history="256,2048"
n_new=128

# One line: type, ms a pass against each history, our tokens/s with 4 tokens a pass, theirs.
measure() {
    local type="$1" round passes tokens_ours tokens_theirs ours autoregressive
    make_model qwen3 "$type"
    autoregressive="$model"
    make_model sdar "$type"
    ours="$model"
    [ $prepare = no ] || return 0
    for ((round = 1; round <= rounds; round++)); do
        say "$type, round $round of $rounds: llama-bench"
        "$theirs" -m "$autoregressive" -p 0 -n "$n_new" -t "$threads" -r 1 -o csv >"$work/theirs" 2>"$work/log" ||
            { cat "$work/log" >&2; die "llama-bench failed"; }
        tokens_theirs="$(columns avg_ts <"$work/theirs")"
        say "$type, round $round of $rounds: ours"
        "$bench" -m "$ours" --forward "$((256 + block)),$((2048 + block))" --rows "$block" --cache dual -t "$threads" -r 3 \
            -o csv >"$work/passes"
        passes="$(columns ms_per_forward <"$work/passes" | tr '\n' '|')"
        "$bench" -m "$ours" -p "$block" -n "$n_new" --steps $((n_new / 4)) --block-length "$block" -t "$threads" -r 1 \
            -o csv >"$work/ours"
        tokens_ours="$(columns tokens_per_s <"$work/ours")"
        echo "$type|$passes$tokens_ours|$tokens_theirs" >>"$work/rows"
    done
}

for type in ${types//,/ }; do
    measure "$type"
done
[ $prepare = no ] || exit 0

echo "| weights | ms/pass, ${history%,*} stored | ms/pass, ${history#*,} stored | growth | ours, 4 tokens a pass | llama-bench tg$n_new | ratio | each round |"
echo "| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |"
awk -F'|' '
    function median(list, n,    i, j, t) {
        for (i = 2; i <= n; i++)
            for (j = i; j > 1 && list[j - 1] > list[j]; j--) { t = list[j]; list[j] = list[j - 1]; list[j - 1] = t }
        return n % 2 ? list[(n + 1) / 2] : (list[n / 2] + list[n / 2 + 1]) / 2
    }
    {
        if (!($1 in count)) order[++n_keys] = $1
        i = ++count[$1]
        short[$1, i] = $2; long[$1, i] = $3; ours[$1, i] = $4; theirs[$1, i] = $5
    }
    END {
        for (k = 1; k <= n_keys; k++) {
            key = order[k]; n = count[key]; each = ""
            for (i = 1; i <= n; i++) {
                a[i] = short[key, i]; b[i] = long[key, i]; c[i] = ours[key, i]; d[i] = theirs[key, i]; e[i] = c[i] / d[i]
                each = each (i > 1 ? " " : "") sprintf("%.2f", e[i])
            }
            ma = median(a, n); mb = median(b, n)
            printf "| %s | %.1f | %.1f | %.2f | %.1f tokens/s | %.1f tokens/s | %.2f | %s |\n", toupper(key), ma, mb, mb / ma,
                median(c, n), median(d, n), median(e, n), each
        }
    }' "$work/rows"
echo
echo "E=1024, L=24, H=16, V=8000, block $block, $threads threads, $rounds rounds; load $(uptime | sed 's/.*load average[s]*: *//');" \
    "$("$bench" --version); llama.cpp $(pin BUOY_PIN_VERSION)"
