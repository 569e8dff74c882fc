#!/usr/bin/env bash
# Our kernels beside ggml's in our engine: types of weights × rows of a pass × shapes. Prints Markdown tables of ratios and ends with
# the combinations where --kernels auto is slower than ggml's by more than 3 %; exit code 1 if there are any. Nothing else should
# compute meanwhile.
set -euo pipefail
caller="$PWD"
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
    cat <<'TEXT'
usage: scripts/bench-kernels.sh [--quick] [--types LIST] [--rows LIST] [--model SPEC]… [-t THREADS] [--build DIR] [--samples FILE]
                                [--choices]
  --quick         five types, four numbers of rows and two shapes
  --types LIST    types of the weights
  --rows LIST     rows of a pass
  --model SPEC    architecture and shape as --make-model wants them, without TYPE; may be repeated
  -t THREADS      threads (default 2)
  --build DIR     use a build that is there instead of making one
  --samples FILE  keep what was measured: model|type|rows|kernels|milliseconds, the shortest of each
  --choices       print the table of src/kernel/choice.cpp as measured
TEXT
}

types=q4_0,q4_1,q5_0,q5_1,q8_0,q4_K,q5_K,q6_K,q2_K,q3_K,iq4_nl,iq4_xs,mxfp4,f16,bf16,f32
rows=1,2,4,8,16,32,64,256,512
specs=("llada:E=1024,L=2,H=16,FF=3072,V=512" "llada:E=2048,L=1,H=16,FF=6144,V=512" "llada:E=4096,L=1,H=32,FF=12288,V=512"
    "llada-moe:E=2048,L=1,H=16,X=64,U=8,FX=1024,V=512")
quick_specs=("${specs[0]}" "${specs[3]}")
given=() threads=2 dir="" samples="" choices=no
while [ $# -gt 0 ]; do
    case "$1" in
        --quick)
            types=q4_0,q8_0,q4_K,q6_K,f16
            rows=1,4,32,256
            specs=("${quick_specs[@]}")
            ;;
        --types | --rows | --model | -t | --build | --samples)
            [ $# -gt 1 ] || { usage >&2; die "$1 needs a value"; }
            case "$1" in
                --types) types="$2" ;;
                --rows) rows="$2" ;;
                --model) given+=("$2") ;;
                -t) threads="$2" ;;
                --build) case "$2" in /*) dir="$2" ;; *) dir="$caller/$2" ;; esac ;;
                --samples) case "$2" in /*) samples="$2" ;; *) samples="$caller/$2" ;; esac ;;
            esac
            shift
            ;;
        --choices) choices=yes ;;
        -h | --help) usage; exit 0 ;;
        *) usage >&2; die "unknown argument: $1" ;;
    esac
    shift
done
case "$threads${rows//,/}" in *[!0-9]*) die "--rows and -t want numbers" ;; esac
[ ${#given[@]} = 0 ] || specs=("${given[@]}")

if [ -z "$dir" ]; then
    dir=build
    install_packages build
    cmake --preset default >&2
    cmake --build --preset default --parallel "$(cores)" --target llama-diffusion-bench >&2
fi
bench_with "$dir"

# measure N REPETITIONS KERNELS REPACK: appends model|type|rows|kernels|ms for each, the shortest of so many passes.
measure() {
    "$bench" -m "$model" --forward "$1" --kernels "$3" --repack "$4" -t "$threads" -r "$2" -o csv >"$work/csv" 2>"$work/log" ||
        { cat "$work/log" >&2; die "$spec, $type failed"; }
    paste -d'|' <(columns kernels <"$work/csv") <(columns samples_ms <"$work/csv") |
        awk -F'|' -v before="$spec|$type|$1" -v repack="$4" '
            {
                n = split($2, ms, " "); best = ms[1]
                for (i = 2; i <= n; i++) if (ms[i] < best) best = ms[i]
                print before "|" (repack == "on" ? $1 : "stored") "|" best
            }' >>"$work/samples"
}

# slower N: whether auto is, so far.
slower() {
    awk -F'|' -v key="$spec|$type|$1" '
        $1 "|" $2 "|" $3 == key && (!($4 in best) || $5 < best[$4]) { best[$4] = $5 }
        END { exit !(best["auto"] > 1.03 * best["ggml"]) }' "$work/samples"
}

for spec in "${specs[@]}"; do
    for type in ${types//,/ }; do
        make_random_model "$spec,TYPE=$type"
        say "$spec, $type"
        for n in ${rows//,/ }; do
            repetitions=$((n < 64 ? 20 : n < 256 ? 8 : 4))
            measure "$n" "$repetitions" auto,ours,ggml on
            for _ in 1 2 3; do # another program may have been in the way
                slower "$n" || break
                measure "$n" "$repetitions" auto,ours,ggml on
            done
            [ $choices = no ] || measure "$n" "$repetitions" ggml off
        done
    done
done

# The shortest of each, in the order they came.
awk -F'|' '
    { key = $1 "|" $2 "|" $3 "|" $4; if (!(key in best)) order[++n] = key; if (!(key in best) || $5 < best[key]) best[key] = $5 }
    END { for (i = 1; i <= n; i++) print order[i] "|" best[order[i]] }' "$work/samples" >"$work/best"
[ -z "$samples" ] || cp "$work/best" "$samples"

print_tables() {
    local spec n
    for spec in "${specs[@]}"; do
        echo "\`$spec\`, ggml's time / auto's time (ggml's time / ours), by rows of the pass:"
        echo
        printf '| weights |'
        for n in ${rows//,/ }; do printf ' %s |' "$n"; done
        printf '\n| --- |'
        for n in ${rows//,/ }; do printf ' ---: |'; done
        echo
        awk -F'|' -v spec="$spec" -v rows="$rows" '
            $1 == spec { if (!($2 in seen)) { seen[$2] = 1; order[++n] = $2 } of[$2, $3, $4] = $5 }
            END {
                n_rows = split(rows, row, ",")
                for (i = 1; i <= n; i++) {
                    line = "| " order[i] " |"
                    for (j = 1; j <= n_rows; j++) {
                        theirs = of[order[i], row[j], "ggml"]
                        line = line sprintf(" %.2f (%.2f) |", theirs / of[order[i], row[j], "auto"], theirs / of[order[i], row[j], "ours"])
                    }
                    print line
                }
            }' "$work/best"
        echo
    done
}

# For each type and class of rows, ggml's time with weights as stored and with its best layout, over ours. The least of all shapes:
# the choice holds for each of them.
print_choices() {
    awk -F'|' '
        { of[$1 "|" $2 "|" $3, $4] = $5; if ($4 == "ours") key[$1 "|" $2 "|" $3] = 1; if (!($2 in seen)) { seen[$2] = 1; type[++n] = $2 } }
        function class(n) { return n <= 1 ? "one" : n <= 8 ? "few" : "many" }
        function class_of(spec, n,    x, u) {
            if (spec !~ /[:,]X=/) return "dense " class(n)
            x = spec; sub(/.*[:,]X=/, "", x); sub(/,.*/, "", x); u = spec; sub(/.*,U=/, "", u); sub(/,.*/, "", u)
            return "experts " class(int((n * u + x - 1) / x))
        }
        function keep(type, which, ratio) { if (!((type, which) in least) || ratio < least[type, which]) least[type, which] = ratio }
        function number(type, which) { return sprintf("%.2f", (type, which) in least ? least[type, which] : 0) }
        function three(type, kind,    k, text) {
            for (k = 1; k <= 3; k++) {
                text = text (k > 1 ? ", " : "") "{" number(type, kind " " classes[k] " stored") ", " number(type, kind " " classes[k] " ggml") "}"
            }
            return "{" text "}"
        }
        END {
            split("one few many", classes, " ")
            for (k in key) {
                split(k, p, "|")
                which = class_of(p[1], p[3])
                keep(p[2], which " ggml", of[k, "ggml"] / of[k, "ours"])
                keep(p[2], which " stored", of[k, "stored"] / of[k, "ours"])
            }
            for (i = 1; i <= n; i++) printf "    %-18s %s, %s},\n", "{GGML_TYPE_" toupper(type[i]) ",", three(type[i], "dense"), three(type[i], "experts")
        }' "$work/best"
    echo
}

print_tables
[ $choices = no ] || print_choices
echo "$threads threads; $(measured_on)"
awk -F'|' '
    { of[$1 "|" $2 "|" $3, $4] = $5; if ($4 == "ggml") order[++n] = $1 "|" $2 "|" $3 }
    END {
        for (i = 1; i <= n; i++) {
            ratio = of[order[i], "auto"] / of[order[i], "ggml"]
            if (ratio > 1.03) { split(order[i], p, "|"); list = list sprintf("; %s %s, %d rows: %.2f", p[1], p[2], p[3], ratio) }
        }
        print list == "" ? "auto is nowhere slower than ggml'\''s kernels by more than 3 %" : "slower than ggml'\''s by more than 3 %" list
        exit list != ""
    }' "$work/best"
