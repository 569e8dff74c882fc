#!/usr/bin/env bash
# Shell scripts are clean for shellcheck and keep to what macOS has: bash 3.2 and BSD's tools.
#   scripts.sh SOURCE
set -euo pipefail
cd "$1"
command -v shellcheck >/dev/null || { echo "skipped: no shellcheck"; exit 77; }
files=(.ci/run scripts/*.sh tests/*.sh tests/*/*.sh models/train/*.sh)

# in bash 4: associative arrays, mapfile, case changes, |&, &>>; in GNU's tools only: the rest
newer='declare -[aA]*A|local -[aA]*A|mapfile|readarray|[$][{][A-Za-z_]+(\^|,)|[|]&|&>>'
gnu='readlink -f|sed -i|sed -r|date (-d|--date)|stat -c|stat --|grep -[A-Za-z]*P|sort -V|xargs -r|head -n -|realpath|mktemp --|cp --'
check() { # FILE…: prints what is wrong
    shellcheck -x -S info -P scripts -e SC2015,SC2016 "$@" || return 1 # a && b || stop; quotes that are meant
    ! grep -nE "$newer|$gnu" "$@" /dev/null
}

# a check that can't fail proves nothing
planted="$(mktemp)"
trap 'rm -f "$planted"' EXIT
for line in 'declare -A map' 'sed -i s/a/b/ file' 'echo "${name^^}"' 'echo $unquoted *' 'readlink -f x'; do
    printf '#!/usr/bin/env bash\n%s\n' "$line" >"$planted"
    ! check "$planted" >/dev/null || { echo "not found: $line"; exit 1; }
done
existing=()
for file in "${files[@]}"; do
    [ ! -e "$file" ] || [ "$file" = tests/scripts.sh ] || existing+=("$file") # which has all of it in quotes
done
check "${existing[@]}"
echo "${#existing[@]} scripts"
