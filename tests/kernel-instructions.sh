#!/usr/bin/env bash
# Each set of kernels has the instructions that its processors have and no others, and shares nothing with code for other processors.
# Nothing else can tell for a set that this machine doesn't run.
#   kernel-instructions.sh AVX2_OBJECT AVXVNNI_OBJECT VNNI_OBJECT
set -euo pipefail
skip() { echo "skipped: $*"; exit 77; }
fail() { echo "$*"; exit 1; }
[ "$(uname -s) $(uname -m)" = "Linux x86_64" ] || skip "these are sets of x86-64"
command -v objdump >/dev/null && command -v nm >/dev/null || skip "no binutils"

# count OBJECT PATTERN: instructions, each on a line with its bytes
count() { objdump --disassemble --wide --insn-width=16 "$1" | grep -cE "$2" || true; }
evex=':[[:space:]]([26][4-7e] |36 )*62 ' # the first byte of AVX-512's encoding, behind prefixes

for object in "$1" "$2"; do
    [ "$(count "$object" '%ymm')" -gt 0 ] || fail "$object has no AVX2 instructions"
    [ "$(count "$object" "$evex")" = 0 ] || fail "$object has AVX-512 instructions"
done
[ "$(count "$1" vpdpbusd)" = 0 ] || fail "$1 has dot products of bytes, which AVX2 lacks"
[ "$(count "$2" '\{vex\} vpdpbusd')" -gt 0 ] || fail "$2 has no dot products of bytes in AVX-VNNI's encoding"
[ "$(count "$3" "$evex.*vpdpbusd")" -gt 0 ] || fail "$3 has no dot products of bytes in AVX-512's encoding"

# an inline function of the standard library would be one for all processors
for object in "$@"; do
    symbols="$(nm --defined-only --extern-only --demangle "$object")"
    [[ "$symbols" =~ ^[0-9a-f]+\ T\ buoy::[a-z0-9]+_table\(\)$ ]] || fail "$object defines more than its table: $symbols"
done
