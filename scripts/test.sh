#!/usr/bin/env bash
# Builds and tests everything; ends with CTest's summary, of the first run that fails or of the last one.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
    cat <<'TEXT'
usage: scripts/test.sh [--fast] [--label main|model|slow|fuzz] [--vulkan] [--threads]
  --fast     without the sanitizers
  --label X  only the tests with that label
  --threads  only what runs in several threads, under ThreadSanitizer
  --vulkan   only ggml's Vulkan backend against the CPU, all of it; otherwise a short form is part of the tests
TEXT
}

sanitizers=yes
vulkan=short
threads=no
ctest_args=(--output-on-failure --no-tests=error --parallel "$(cores)")
sanitize_args=(--label-exclude '^(model|slow)$')
while [ $# -gt 0 ]; do
    case "$1" in
        --fast) sanitizers=no ;;
        --label)
            [ $# -gt 1 ] || { usage >&2; die "--label needs a value"; }
            ctest_args+=(--label-regex "^$2\$")
            sanitize_args=()
            vulkan=no
            shift
            ;;
        --vulkan) vulkan=all ;;
        --threads) threads=yes ;;
        -h | --help) usage; exit 0 ;;
        *) usage >&2; die "unknown argument: $1" ;;
    esac
    shift
done

install_packages test
if [ $threads = yes ]; then
    build threads -DBUOY_WERROR=ON -DBUOY_BUILD_TESTS=ON
    say "tests under ThreadSanitizer"
    exec ctest --preset threads "${ctest_args[@]}" --tests-regex '^threads$'
fi
[ $vulkan = all ] || install_cross
vulkan_tests=OFF
if [ $vulkan != no ]; then
    if install_vulkan; then
        vulkan_tests=ON
    elif [ $vulkan = all ]; then
        exit 1
    fi
fi
build default -DBUOY_WERROR=ON -DBUOY_BUILD_TESTS=ON -DBUOY_VULKAN_TESTS=$vulkan_tests
if [ $vulkan = all ]; then
    say "tests of the Vulkan backend"
    exec ctest --preset default "${ctest_args[@]}" --label-regex '^vulkan'
fi
if [ $sanitizers = yes ]; then
    build sanitize -DBUOY_WERROR=ON -DBUOY_BUILD_TESTS=ON
    say "tests under AddressSanitizer and UBSan"
    ctest --preset sanitize "${ctest_args[@]}" "${sanitize_args[@]}"
fi
say "tests"
ctest --preset default "${ctest_args[@]}" --label-exclude '^vulkan$'
