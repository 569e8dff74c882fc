#!/usr/bin/env bash
# Searches for inputs that break a reader, with libFuzzer; ends with a table of what each target did.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
    cat <<'TEXT'
usage: scripts/fuzz.sh [--minutes N] [TARGET…]
  --minutes N  for each target (1)
  TARGET       one of those in tests/fuzz/target.h; without any, all of them
What was found stays in build-fuzz/findings/<target>, what is worth mutating in build-fuzz/corpus/<target>.
TEXT
}

minutes=1
targets=()
while [ $# -gt 0 ]; do
    case "$1" in
        --minutes)
            [ $# -gt 1 ] || { usage >&2; die "--minutes needs a value"; }
            minutes="$2"
            shift
            ;;
        -h | --help) usage; exit 0 ;;
        -*) usage >&2; die "unknown argument: $1" ;;
        *) targets+=("$1") ;;
    esac
    shift
done

install_packages fuzz
build fuzz -DBUOY_BUILD_TESTS=ON --target buoy-fuzz buoy-libfuzzer
bin=build-fuzz/bin
if [ ${#targets[@]} = 0 ]; then
    while IFS= read -r target; do targets+=("$target"); done < <("$bin/buoy-fuzz" --list)
fi

# search TARGET: libFuzzer until the time is over; one that ends early found something.
search() {
    local target="$1" corpus="build-fuzz/corpus/$1" findings="build-fuzz/findings/$1"
    mkdir -p "$corpus" "$findings" "tests/fuzz/corpus/$target"
    "$bin/buoy-fuzz" "$target" --seeds-to "$corpus"
    BUOY_FUZZ_TARGET="$target" OMP_WAIT_POLICY=passive UBSAN_OPTIONS=print_stacktrace=1 ASAN_OPTIONS=detect_leaks=0 \
        "$bin/buoy-libfuzzer" -max_total_time=$((minutes * 60)) -timeout=20 -rss_limit_mb=2048 -max_len=65536 \
        -print_final_stats=1 -artifact_prefix="$findings/" "$corpus" "tests/fuzz/corpus/$target" 2>"build-fuzz/$target.log"
}

# last PATTERN: the number at the end of its last match in $log.
last() { grep -oE "$1" "$log" | tail -n 1 | grep -oE '[0-9]+$' || echo 0; }

failed=0
printf '%-16s %12s %10s %10s %10s\n' target executions edges features findings
for target in "${targets[@]}"; do
    search "$target" || failed=1
    log="build-fuzz/$target.log"
    printf '%-16s %12s %10s %10s %10s\n' "$target" "$(last 'executed_units: *[0-9]+')" "$(last 'cov: [0-9]+')" \
        "$(last 'ft: [0-9]+')" "$(find "build-fuzz/findings/$target" -type f | wc -l)"
done
exit $failed
