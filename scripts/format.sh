#!/usr/bin/env bash
# Formats our C++ in place; with --check changes nothing, names the files that differ and exits 1.
# Exits 77 without clang-format, which CTest shows as skipped.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

check=no
case "${1:-}" in
    "") ;;
    --check) check=yes ;;
    *) die "usage: scripts/format.sh [--check]" ;;
esac
command -v clang-format >/dev/null || { say "clang-format is not installed"; exit 77; }

status=0
while IFS= read -r file; do
    [ -e "$file" ] || continue
    if [ $check = no ]; then
        clang-format -i "$file"
    elif ! clang-format "$file" | cmp -s - "$file"; then
        echo "$file: not as clang-format writes it (run scripts/format.sh)"
        status=1
    fi
done < <(git ls-files --cached --others --exclude-standard -- '*.cpp' '*.h')
exit $status
