#!/usr/bin/env bash
# Ours beside the pinned llama.cpp's llama-bench, in two Markdown tables: the same autoregressive model, its prompt (pp512) and its
# decoding (tg128); and a block-causal model of the same weights against decoding one token at a time. What happens meanwhile goes to
# standard error.
set -euo pipefail
caller="$PWD"
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
    cat <<'TEXT'
usage: scripts/bench-vs-llama-bench.sh [--types LIST] [--shape SHAPE] [--block N] [--only TABLE] [-r ROUNDS] [-t THREADS] [--build DIR]
                                       [--prepare]
  --types LIST   types of the weights, default f32,f16,q8_0,q4_0,q4_k_m
  --shape SHAPE  of the models, default E=1024,L=24,H=16,FF=3072,V=8000
  --block N      length of a block, default 32
  --only TABLE   autoregressive or blocks instead of both
  -r ROUNDS      rounds of theirs, then ours (default 3); the tables show medians
  -t THREADS     threads of both (default 2)
  --build DIR    use a build that is there (configured with -DBUOY_UPSTREAM_PROGRAMS=llama-bench) instead of making one
  --prepare      only build and make the models
TEXT
}

types=f32,f16,q8_0,q4_0,q4_k_m shape=E=1024,L=24,H=16,FF=3072,V=8000 block=32 only="" rounds=3 threads=2 dir="" prepare=no
while [ $# -gt 0 ]; do
    case "$1" in
        --types | --shape | --block | --only | -r | -t | --build)
            [ $# -gt 1 ] || { usage >&2; die "$1 needs a value"; }
            case "$1" in
                --types) types="$2" ;;
                --shape) shape="$2" ;;
                --block) block="$2" ;;
                --only) only="$2" ;;
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
case "$only" in "" | autoregressive | blocks) ;; *) die "--only wants autoregressive or blocks" ;; esac

if [ -z "$dir" ]; then
    dir=build
    install_packages build
    cmake --preset default -DBUOY_UPSTREAM_PROGRAMS=llama-bench >&2
    cmake --build --preset default --parallel "$(cores)" --target llama-diffusion-bench >&2
fi
bench_with "$dir" llama-bench

n_prompt=512 n_new=128
history="256,2048"

# Prompt and decoding, in tokens/s; a prompt is not decoded where nobody asked for that table.
run_theirs() {
    local prompt="$n_prompt"
    [ "$only" != blocks ] || prompt=0
    "$theirs" -m "$autoregressive" -p "$prompt" -n "$n_new" -t "$threads" -r 1 -o csv >"$work/theirs" 2>"$work/log" ||
        { cat "$work/log" >&2; die "llama-bench failed"; }
    columns avg_ts <"$work/theirs" | tr '\n' '|'
}

# One token more than a prompt is the prompt's pass and the choice of that token. Decoding begins with one token, as theirs does.
run_autoregressive() {
    "$bench" -m "$autoregressive" -p "$n_prompt" -n 1 -t "$threads" -r 1 -o csv >"$work/ours"
    awk -v n="$n_prompt" -v ms="$(columns total_ms <"$work/ours")" 'BEGIN { printf "%f|", n * 1000 / ms }'
    "$bench" -m "$autoregressive" -p 1 -n "$n_new" -t "$threads" -r 1 -o csv >"$work/ours"
    columns tokens_per_s <"$work/ours"
}

# Milliseconds of a pass against each history, and tokens/s with 4 tokens a pass.
run_blocks() {
    "$bench" -m "$blocks" --forward "$((${history%,*} + block)),$((${history#*,} + block))" --rows "$block" --cache dual \
        -t "$threads" -r 3 -o csv >"$work/ours"
    columns ms_per_forward <"$work/ours" | tr '\n' '|'
    "$bench" -m "$blocks" -p "$block" -n "$n_new" --steps $((n_new / 4)) --block-length "$block" -t "$threads" -r 1 \
        -o csv >"$work/ours"
    columns tokens_per_s <"$work/ours"
}

measure() {
    local type="$1" round autoregressive blocks speeds
    make_random_model "qwen3:$shape,TYPE=$type"
    autoregressive="$model"
    if [ "$only" != autoregressive ]; then
        make_random_model "sdar:$shape,TYPE=$type,B=$block" # the same tensors, and the same seed fills them alike
        blocks="$model"
    fi
    [ $prepare = no ] || return 0
    for ((round = 1; round <= rounds; round++)); do
        say "$type, round $round of $rounds: llama-bench"
        speeds="$(run_theirs)"
        say "$type, round $round of $rounds: ours"
        [ "$only" = blocks ] || echo "$type|$speeds$(run_autoregressive)" >>"$work/autoregressive"
        [ "$only" = autoregressive ] || { speeds="${speeds%|}"; echo "$type|${speeds##*|}|$(run_blocks)" >>"$work/blocks"; }
    done
}

# Lines of type, their prompt and decoding, our prompt and decoding.
print_autoregressive() {
    echo "| weights | pp$n_prompt, ours | llama-bench | ratio | tg$n_new, ours | llama-bench | ratio | each round |"
    echo "| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |"
    awk -F'|' "$awk_median"'
        {
            if (!($1 in count)) order[++n_keys] = $1
            i = ++count[$1]
            for (j = 1; j <= 4; j++) of[$1, i, j] = $(j + 1)
        }
        END {
            for (k = 1; k <= n_keys; k++) {
                key = order[k]; n = count[key]; each = ""
                for (i = 1; i <= n; i++) {
                    a[i] = of[key, i, 1]; b[i] = of[key, i, 2]; c[i] = of[key, i, 3]; d[i] = of[key, i, 4]
                    e[i] = c[i] / a[i]; f[i] = d[i] / b[i]
                    each = each (i > 1 ? ", " : "") sprintf("%.2f %.2f", e[i], f[i])
                }
                printf "| %s | %.1f tokens/s | %.1f tokens/s | %.2f | %.1f tokens/s | %.1f tokens/s | %.2f | %s |\n",
                    toupper(key), median(c, n), median(a, n), median(e, n), median(d, n), median(b, n), median(f, n), each
            }
        }' "$work/autoregressive"
    echo
}

# Lines of type, their decoding, our passes against both histories, our tokens/s.
print_blocks() {
    echo "| weights | ms/pass, ${history%,*} stored | ms/pass, ${history#*,} stored | growth | ours, 4 tokens a pass | llama-bench tg$n_new | ratio | each round |"
    echo "| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |"
    awk -F'|' "$awk_median"'
        {
            if (!($1 in count)) order[++n_keys] = $1
            i = ++count[$1]
            theirs[$1, i] = $2; short[$1, i] = $3; long[$1, i] = $4; ours[$1, i] = $5
        }
        END {
            for (k = 1; k <= n_keys; k++) {
                key = order[k]; n = count[key]; each = ""
                for (i = 1; i <= n; i++) {
                    a[i] = short[key, i]; b[i] = long[key, i]; c[i] = ours[key, i]; d[i] = theirs[key, i]; e[i] = c[i] / d[i]
                    each = each (i > 1 ? ", " : "") sprintf("%.2f", e[i])
                }
                ma = median(a, n); mb = median(b, n)
                printf "| %s | %.1f | %.1f | %.2f | %.1f tokens/s | %.1f tokens/s | %.2f | %s |\n", toupper(key), ma, mb, mb / ma,
                    median(c, n), median(d, n), median(e, n), each
            }
        }' "$work/blocks"
    echo
}

for type in ${types//,/ }; do
    measure "$type"
done
[ $prepare = no ] || exit 0
[ "$only" = blocks ] || print_autoregressive
[ "$only" = autoregressive ] || print_blocks
echo "$shape, block $block, $threads threads, $rounds rounds; $(measured_on); llama.cpp $(pin BUOY_PIN_VERSION)"
