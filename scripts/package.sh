#!/usr/bin/env bash
# Makes the portable packages (preset dl) and tries them out in a bare root: build-dl/buoy-*.tar.gz and, where dpkg is there, .deb.
# The files in them are as old as the commit.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
    cat <<'TEXT'
usage: scripts/package.sh [--no-test] [-D…]
  --no-test  make them only
  -D…        passed to CMake, such as -DBUOY_VULKAN_PREBUILT=OFF
The test wants root (or sudo) and debootstrap for a bare Debian; without them the archive runs in an empty prefix.
TEXT
}

test=yes
cmake_args=()
while [ $# -gt 0 ]; do
    case "$1" in
        --no-test) test=no ;;
        -D*) cmake_args+=("$1") ;;
        -h | --help) usage; exit 0 ;;
        *) usage >&2; die "unknown argument: $1" ;;
    esac
    shift
done

if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
    SOURCE_DATE_EPOCH="$(git log -1 --format=%ct 2>/dev/null || perl -e 'print +(stat "VERSION")[9]')"
fi
export SOURCE_DATE_EPOCH
umask 022

install_packages build
if command -v apt-get >/dev/null; then
    apt_install dpkg-dev
    [ $test = no ] || apt_install debootstrap || say "no debootstrap, the packages are not tried in a bare system"
fi
build dl -DBUOY_BUILD_TESTS=OFF -DBUOY_WERROR=ON "${cmake_args[@]+"${cmake_args[@]}"}"
cmake --build --preset dl --target package
[ $test = no ] || ctest --preset dl --label-regex '^package$' --output-on-failure --verbose
ls -l build-dl/buoy-*.tar.gz build-dl/buoy_*.deb 2>/dev/null || true
