#!/usr/bin/env bash
# run.sh PRODUCTS BUILD GENERATOR [-Dname=value…]: builds the kernels and their tests for aarch64 in the directory BUILD, and runs the
# tests on processors that QEMU emulates. PRODUCTS is products.cpp for this machine, which has to print the same.
set -euo pipefail

products="$1"
build="$2"
generator="$3"
shift 3
source="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

skip() { echo "skipped: $*"; exit 77; }
triple=aarch64-linux-gnu
command -v $triple-g++ >/dev/null || skip "no cross compiler (Debian/Ubuntu: apt-get install g++-$triple)"
qemu="$(command -v qemu-aarch64 || command -v qemu-aarch64-static)" || skip "no QEMU (Debian/Ubuntu: apt-get install qemu-user)"

cmake -S "$source" -B "$build" -G "$generator" -DCMAKE_BUILD_TYPE=Release -DCMAKE_SYSTEM_NAME=Linux \
    -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_C_COMPILER=$triple-gcc -DCMAKE_CXX_COMPILER=$triple-g++ "$@"
cmake --build "$build" --parallel

run() {
    echo "tests on $1"
    "$qemu" -cpu "$1" "$build/kernel-tests" | tee "$build/log"
}
found_none() { grep -q 'no kernels for this processor' "$build/log"; }

run neoverse-n1 # it has dot products of bytes
! found_none || { echo "the kernels were not used"; exit 1; }
if "$products" >"$build/here.txt"; then
    "$qemu" -cpu neoverse-n1 "$build/products" >"$build/there.txt"
    cmp "$build/here.txt" "$build/there.txt" # to the bit
fi
run cortex-a72 # it has none
found_none || { echo "kernels were used that this processor can't run"; exit 1; }
