#!/usr/bin/env bash
# Runs the README's commands in a fresh directory: readme.sh README.md BIN_DIR. The two scripts and blocks marked as needing a
# download are left out, and the server, which does not end.
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
mkdir "$work/build"
ln -s "$2" "$work/build/bin"
ln -s "$(cd "$(dirname "$1")" && pwd)/models" "$work/models"

awk '/needs a download/ { skip = 1 }
     /^```sh$/ { inside = 1; next }
     /^```/ { if (inside) { inside = 0; skip = 0 } }
     inside && !skip && /^build\/bin\// && !/^build\/bin\/llama-diffusion-server/ { print }' "$1" > "$work/commands"

cd "$work"
n=0
while IFS= read -r command; do
    echo "\$ $command"
    bash -c "$command" < /dev/null > out 2> err || { cat out err; echo "failed: $command"; exit 1; }
    [ -s out ] || { cat err; echo "printed nothing: $command"; exit 1; }
    n=$((n + 1))
done < commands
[ "$n" -ge 6 ] || { echo "found $n commands in $1, expected 6 or more"; exit 1; }
