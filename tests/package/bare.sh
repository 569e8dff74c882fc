#!/usr/bin/env bash
# The packages in systems that have nothing of ours: bare.sh DIR, with DIR/buoy-*.tar.gz and maybe DIR/buoy_*.deb.
# The archive runs where it was unpacked, with an empty environment, also on Vulkan where there is a device; as root and with
# debootstrap, archive and Debian package also in a bare Debian of this machine's release, whose package lists come from where
# this machine's do.
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

# try WHAT BIN_DIR SCRATCH_DIR COMMAND…: the programs in BIN_DIR, run by that command
try() {
    local what="$1" bin="$2" model="$3/quantised.gguf" text
    shift 3
    text="$("$@" "$bin/llama-diffusion-cli" -p 'Tell a story about Mira and a fox.' -n 24 2>"$work/errors")" ||
        { cat "$work/errors"; fail "$what: the bundled model did not run"; }
    [ -n "$text" ] || fail "$what: the bundled model wrote nothing"
    text="$("$@" "$bin/llama-diffusion-cli" --list-devices 2>"$work/errors")" || { cat "$work/errors"; fail "$what: --list-devices"; }
    grep -q CPU <<<"$text" || fail "$what: no CPU backend was found: $text"
    # the kernels of the chosen CPU variant
    "$@" "$bin/llama-diffusion-bench" --make-model llama:E=128,L=2,H=4,V=300,TYPE=q4_0 -o "$model" >"$work/errors" 2>&1 &&
        "$@" "$bin/llama-diffusion-bench" -m "$model" --forward 48 -r 1 >"$work/errors" 2>&1 ||
        { cat "$work/errors"; fail "$what: a quantised model did not run"; }
    local program
    for program in llama-attention llama-diffusion-convert llama-diffusion-bench; do
        "$@" "$bin/$program" --help >/dev/null 2>"$work/errors" || { cat "$work/errors"; fail "$what: $program --help"; }
    done
    echo "$what: runs"
}

# try_vulkan BIN_DIR: the same text from the first Vulkan device, with nothing left to the CPU; llvmpipe is one where it is named
try_vulkan() {
    local run=("$1/llama-diffusion-cli") here there
    if ! env -i GGML_VK_VISIBLE_DEVICES=0 "${run[@]}" --list-devices 2>/dev/null | grep -q '^Vulkan0'; then
        echo "no Vulkan backend or no device: not tried"
        return
    fi
    run+=(-p 'Tell a story about Mira and a fox.' -n 16 --diffusion-steps 4 -fa off)
    here="$(env -i "${run[@]}" -dev none 2>/dev/null)" || fail "on the CPU"
    there="$(env -i GGML_VK_VISIBLE_DEVICES=0 "${run[@]}" -dev Vulkan0 -v 2>"$work/errors")" ||
        { cat "$work/errors"; fail "the bundled model did not run on Vulkan"; }
    [ -n "$here" ] && [ "$here" = "$there" ] || fail "Vulkan wrote '$there', the CPU '$here'"
    grep -q ' in 1 split: [0-9]* on Vulkan0$' "$work/errors" || { cat "$work/errors"; fail "Vulkan left something to the CPU"; }
    echo "Vulkan: writes the same"
}

mkdir "$work/a place"
tar -xzf "$archive" -C "$work/a place"
mv "$work/a place"/buoy-* "$work/a place/moved"
[ "$(find "$work/a place/moved" -name '*ggml-cpu*' | wc -l)" -ge 1 ] || fail "the archive has no CPU backend"
for file in man/man1/llama-diffusion-cli.1 bash-completion/completions/llama-diffusion-cli zsh/site-functions/_llama-diffusion-cli \
    fish/vendor_completions.d/llama-diffusion-cli.fish; do
    [ -s "$work/a place/moved/share/$file" ] || fail "the archive has no share/$file"
    [ -z "$deb" ] || dpkg-deb --contents "$deb" | grep -q "/usr/share/$file\$" || fail "the Debian package has no $file"
done
cd /
try "the archive, moved, with an empty environment" "$work/a place/moved/bin" "$work" env -i
try_vulkan "$work/a place/moved/bin"

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
try "the archive in a bare $release" /opt/unpacked/bin /opt chroot "$root" env -i
if [ -n "$deb" ]; then
    cp "$deb" "$root/opt/"
    cp /etc/resolv.conf "$root/etc/"
    chroot "$root" env -i PATH="$PATH" DEBIAN_FRONTEND=noninteractive sh -c \
        "apt-get update -qq && apt-get install -y -qq --no-install-recommends /opt/$(basename "$deb")" >"$work/apt" 2>&1 ||
        { tail -20 "$work/apt"; fail "apt-get install $(basename "$deb")"; }
    try "the Debian package in a bare $release" /usr/bin /var/tmp chroot "$root" env -i
    chroot "$root" env -i PATH="$PATH" dpkg --remove buoy >/dev/null
    [ ! -e "$root/usr/lib/buoy" ] || fail "the Debian package leaves files behind when removed"
fi
