#!/usr/bin/env bash
# What the packages are made of: supply.sh SOURCE BUILD, with BUILD/buoy-*.tar.gz and maybe BUILD/buoy_*.deb.
# Programs and libraries are hardened, name no directory of this machine, the list of components names what was pinned, and packing
# once more gives the same bytes.
set -euo pipefail
export LC_ALL=C

source_dir="$(cd "$1" && pwd)"
build="$(cd "$2" && pwd)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
fail() { echo "failed: $*" >&2; exit 1; }
command -v readelf >/dev/null || fail "no readelf (binutils)"

archive="$(ls "$build"/buoy-*.tar.gz)"
tar -xzf "$archive" -C "$work"
cd "$work"/buoy-*

# hardened FILE KIND: as cmake/harden.cmake promises
hardened() {
    local text
    text="$(readelf --wide --file-header --program-headers --dynamic --symbols --dyn-syms "$1")"
    grep -q 'Type: *DYN' <<<"$text" || fail "$1 is not position-independent"
    grep -q 'GNU_RELRO' <<<"$text" || fail "$1 has no RELRO segment"
    grep -Eq 'BIND_NOW|FLAGS.*NOW' <<<"$text" || fail "$1 binds symbols late"
    grep 'GNU_STACK' <<<"$text" | grep -q 'RWE' && fail "$1 has an executable stack"
    [ "$2" = library ] || grep -q '__stack_chk_fail' <<<"$text" || fail "$1 has no stack protector"
    [ "$2" = library ] || grep -q '_chk@' <<<"$text" || fail "$1 is not fortified"
}

n=0
while IFS= read -r file; do
    name="$(basename "$file")"
    case "$name" in
        libggml-vulkan.so) continue ;; # as its makers compiled it
        llama-*) kind=program ;;
        lib*ggml* | libllama*) kind=library ;;
        *) continue ;; # the distribution's
    esac
    head -c 4 "$file" | grep -q ELF || continue
    hardened "$file" "$kind"
    for place in "$source_dir" "${XDG_CACHE_HOME:-$HOME/.cache}/buoy"; do
        ! grep -qF "$place" "$file" || fail "$file names $place"
    done
    n=$((n + 1))
done < <(find . -type f)
[ $n -ge 8 ] || fail "only $n programs and libraries"
echo "$n programs and libraries: hardened, no directory of this machine"

sbom=share/doc/buoy/sbom.cdx.json
cat >"$work/sbom.cmake" <<'TEXT'
cmake_minimum_required(VERSION 3.22)
include("${SOURCE}/ggml/pin.cmake")
file(READ "${SBOM}" text)
string(JSON format GET "${text}" bomFormat)
string(JSON n LENGTH "${text}" components)
set(names "")
math(EXPR last "${n} - 1")
foreach(i RANGE ${last})
    string(JSON name GET "${text}" components ${i} name)
    list(APPEND names "${name}")
endforeach()
foreach(name llama.cpp nlohmann-json cpp-httplib buoy-mdm buoy-arm)
    if(NOT name IN_LIST names)
        message(FATAL_ERROR "${name} is not among ${names}")
    endif()
endforeach()
if(NOT format STREQUAL "CycloneDX" OR NOT text MATCHES "${BUOY_PIN_TREE}")
    message(FATAL_ERROR "not CycloneDX, or without the pinned tree")
endif()
if(VULKAN AND NOT text MATCHES "${BUOY_PIN_VULKAN_LINUX_X64_SHA256}")
    message(FATAL_ERROR "the Vulkan backend's hash is missing")
endif()
message(STATUS "${n} components: ${names}")
TEXT
cmake "-DSOURCE=$source_dir" "-DSBOM=$PWD/$sbom" "-DVULKAN=$(find . -name 'libggml-vulkan.so')" -P "$work/sbom.cmake" || fail "$sbom"
for library in lib/buoy/lib/lib*.so.*; do
    case "$library" in *ggml* | *llama*) continue ;; esac
    owner="$(dpkg-query -S "*/$(basename "$library")" 2>/dev/null | head -n 1 | cut -d: -f1)" || continue
    grep -q "\"name\": \"$owner\"" "$sbom" || fail "$library comes with the archive, but $owner is not in $sbom"
done

# once more, from a staging directory of its own
SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(perl -e 'print +(stat "share/doc/buoy/copyright")[9]')}" \
    cpack --config "$build/CPackConfig.cmake" -B "$work/again" >"$work/log" 2>&1 || { cat "$work/log"; fail "cpack"; }
for package in "$build"/buoy-*.tar.gz "$build"/buoy_*.deb; do
    [ -e "$package" ] || continue
    cmp "$package" "$work/again/$(basename "$package")" || fail "$(basename "$package") has other bytes when made again"
    echo "$(basename "$package"): the same bytes again"
done
