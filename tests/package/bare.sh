#!/usr/bin/env bash
# The packages in systems that have nothing of ours: bare.sh DIR, with DIR/buoy-*.tar.gz and maybe DIR/buoy_*.deb.
# The archive runs where it was unpacked, with an empty environment; as root and with debootstrap, archive and Debian package also
# in a bare Debian of this machine's release, whose package lists come from where this machine's do.
set -euo pipefail

packages="$(cd "$1" && pwd)"
work="$(mktemp -d)"
cleanup() {
    umount "$work/root/proc" 2>/dev/null || true
    rm -rf "$work"
}
trap cleanup EXIT
fail() { echo "failed: $*" >&2; exit 1; }

archive="$(ls "$packages"/buoy-*.tar.gz)"
deb="$(ls "$packages"/buoy_*.deb 2>/dev/null || true)"

# try WHAT BIN_DIR COMMAND…: the programs in BIN_DIR, run by that command
try() {
    local what="$1" bin="$2" text
    shift 2
    text="$("$@" "$bin/llama-diffusion-cli" -p 'Tell a story about Mira and a fox.' -n 24 2>"$work/errors")" ||
        { cat "$work/errors"; fail "$what: the bundled model did not run"; }
    [ -n "$text" ] || fail "$what: the bundled model wrote nothing"
    text="$("$@" "$bin/llama-diffusion-cli" --list-devices 2>"$work/errors")" || { cat "$work/errors"; fail "$what: --list-devices"; }
    grep -q CPU <<<"$text" || fail "$what: no CPU backend was found: $text"
    local program
    for program in llama-attention llama-diffusion-convert llama-diffusion-bench; do
        "$@" "$bin/$program" --help >/dev/null 2>"$work/errors" || { cat "$work/errors"; fail "$what: $program --help"; }
    done
    echo "$what: runs"
}

mkdir "$work/a place"
tar -xzf "$archive" -C "$work/a place"
mv "$work/a place"/buoy-* "$work/a place/moved"
[ "$(find "$work/a place/moved" -name '*ggml-cpu*' | wc -l)" -ge 1 ] || fail "the archive has no CPU backend"
cd /
try "the archive, moved, with an empty environment" "$work/a place/moved/bin" env -i

if [ "$(id -u)" != 0 ] || ! command -v debootstrap >/dev/null; then
    echo "not root, or no debootstrap: the packages were not tried in a bare system"
    exit 0
fi
mirror="$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | head -1)"
release="$(. /etc/os-release && echo "$VERSION_CODENAME")"
root="${BUOY_BARE_ROOT:-}" # one that is there already
if [ -z "$root" ]; then
    debootstrap --variant=minbase "$release" "$work/root" "$mirror" >"$work/debootstrap" 2>&1 ||
        { tail "$work/debootstrap"; fail "debootstrap"; }
else
    cp -a "$root" "$work/root"
fi
root="$work/root"
mount -t proc proc "$root/proc" # a program finds its own place there
mkdir "$root/opt/unpacked"
tar -xzf "$archive" -C "$root/opt/unpacked" --strip-components=1
try "the archive in a bare $release" /opt/unpacked/bin chroot "$root" env -i
if [ -n "$deb" ]; then
    cp "$deb" "$root/opt/"
    cp /etc/resolv.conf "$root/etc/"
    chroot "$root" env -i PATH="$PATH" DEBIAN_FRONTEND=noninteractive sh -c \
        "apt-get update -qq && apt-get install -y -qq --no-install-recommends /opt/$(basename "$deb")" >"$work/apt" 2>&1 ||
        { tail -20 "$work/apt"; fail "apt-get install $(basename "$deb")"; }
    try "the Debian package in a bare $release" /usr/bin chroot "$root" env -i
    chroot "$root" env -i PATH="$PATH" dpkg --remove buoy >/dev/null
    [ ! -e "$root/usr/lib/buoy" ] || fail "the Debian package leaves files behind when removed"
fi
