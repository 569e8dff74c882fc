# What the scripts share; sourced, not run.
# shellcheck shell=bash

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$ROOT" || exit 1

say() { printf 'buoy: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

is_ci() { [ -n "${CI:-}" ]; }

cores() { getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2; }

pin() { sed -n "s/^set($1 *\"\(.*\)\").*/\1/p" ggml/pin.cmake; }

# Is the pinned llama.cpp already on this machine, so that nothing must be fetched?
have_tree() {
    [ -n "${BUOY_LLAMA_CPP_DIR:-}" ] && return 0
    local cache="${XDG_CACHE_HOME:-$HOME/.cache}/buoy" tree
    tree="$(pin BUOY_PIN_TREE)"
    [ -d "$cache/llama.cpp-$(pin BUOY_PIN_VERSION)-${tree:0:12}" ]
}

# The same for the Vulkan backend that tests load.
have_vulkan() {
    local cache="${XDG_CACHE_HOME:-$HOME/.cache}/buoy" hash
    hash="$(pin BUOY_PIN_VULKAN_LINUX_X64_SHA256)"
    [ -e "$cache/vulkan-$(pin BUOY_PIN_VERSION)-${hash:0:12}/libggml-vulkan.so" ]
}

# npm brings hundreds of packages with it on Debian: only ask for it where git can't reach upstream.
upstream_reachable() {
    command -v git >/dev/null || return 1
    local limit=()
    command -v timeout >/dev/null && limit=(timeout 20)
    GIT_TERMINAL_PROMPT=0 "${limit[@]+"${limit[@]}"}" \
        git ls-remote --exit-code --tags "$(pin BUOY_PIN_GIT_URL)" "$(pin BUOY_PIN_GIT_TAG)" >/dev/null 2>&1
}

# Runs a command as root: as we are, with sudo that does not ask, or asking where somebody is there to answer.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        sudo -n "$@"
    elif command -v sudo >/dev/null && [ -t 0 ] && ! is_ci; then
        sudo "$@"
    else
        die "needs root for: $*"
    fi
}

apt_has() { dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null | grep -qx installed; }

# Only what is missing: a tool may be there without its package, a header-only library is asked of dpkg.
apt_missing() {
    local package
    for package in "$@"; do
        case "$package" in
            cmake | git | npm | g++ | clang-format) command -v "$package" >/dev/null || echo "$package" ;;
            ninja-build) command -v ninja >/dev/null || echo "$package" ;;
            python3-numpy) python3 -c 'import numpy' 2>/dev/null || echo "$package" ;;
            qemu-user) command -v qemu-aarch64 qemu-aarch64-static >/dev/null || echo "$package" ;;
            chromium) command -v chromium chromium-browser google-chrome >/dev/null || echo "$package" ;;
            *) apt_has "$package" || echo "$package" ;;
        esac
    done
}

apt_install() {
    local missing
    missing="$(apt_missing "$@" | tr '\n' ' ')"
    [ -n "${missing// /}" ] || return 0
    say "installing $missing"
    # shellcheck disable=SC2086
    if ! as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing; then
        as_root apt-get update -qq
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing
    fi
}

brew_install() {
    local name missing=()
    for name in "$@"; do
        brew list --formula "$name" >/dev/null 2>&1 || missing+=("$name")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    say "installing ${missing[*]}"
    brew install --quiet "${missing[@]}"
}

# install_packages build|test|fuzz: installs what building (and testing, and fuzzing) needs and is not there.
install_packages() {
    local for_tests=no
    [ "$1" = build ] || for_tests=yes
    if [ "$(uname -s)" = Darwin ]; then
        command -v brew >/dev/null || die "install Homebrew (https://brew.sh) or by hand: cmake ninja utf8proc doctest"
        command -v c++ >/dev/null || die "install the command line tools: xcode-select --install"
        brew_install cmake ninja ccache utf8proc
        [ $for_tests = no ] || brew_install doctest clang-format numpy
    elif command -v apt-get >/dev/null; then
        local packages=(cmake ninja-build g++ ccache git zlib1g-dev libutf8proc-dev libedit-dev)
        [ $for_tests = no ] || packages+=(doctest-dev clang-format shellcheck iproute2 groff-base
            python3-numpy python3-matplotlib python3-nbclient python3-ipykernel python3-pip python3-wheel)
        [ "$1" != fuzz ] || packages+=(clang libclang-rt-dev)
        have_tree || packages+=(ca-certificates)
        apt_install "${packages[@]}"
        # only the report's test looks at a page; Ubuntu has it as a snap
        [ $for_tests = no ] || apt_install chromium || say "no Chromium, the report is not tested in a browser"
        if ! have_tree && ! command -v npm >/dev/null && ! upstream_reachable; then
            apt_install npm
        fi
    else
        check_tools $for_tests
    fi
}

# What the tests of the Vulkan backend need: a driver, which Mesa has for any processor, and npm to fetch the backend once.
# Says so and fails where they can't be had.
install_vulkan() {
    if [ "$(uname -s) $(uname -m)" != "Linux x86_64" ]; then
        say "no prebuilt Vulkan backend for $(uname -s) $(uname -m), it is not tested"
        return 1
    fi
    if command -v apt-get >/dev/null; then
        local packages=(libvulkan1 mesa-vulkan-drivers)
        have_vulkan || packages+=(npm)
        (apt_install "${packages[@]}") && return 0
    elif have_vulkan || command -v npm >/dev/null; then
        return 0
    fi
    say "no Vulkan driver or no npm, the Vulkan backend is not tested"
    return 1
}

# What the test of the kernels for aarch64 needs; it is skipped without.
install_cross() {
    [ "$(uname -s) $(uname -m)" = "Linux x86_64" ] && command -v apt-get >/dev/null || return 0
    (apt_install g++-aarch64-linux-gnu qemu-user) || say "no cross compiler or no QEMU, the kernels for aarch64 are not tested"
}

# Neither apt nor Homebrew: say everything that is missing at once.
check_tools() {
    local tool missing=()
    for tool in cmake ninja c++ git; do
        command -v "$tool" >/dev/null || missing+=("$tool")
    done
    if command -v c++ >/dev/null; then
        local header headers=(zlib.h utf8proc.h)
        [ "$1" = no ] || headers+=(doctest/doctest.h)
        for header in "${headers[@]}"; do
            echo "#include <$header>" | c++ -std=c++20 -E -x c++ - >/dev/null 2>&1 || missing+=("<$header>")
        done
    fi
    [ "$1" = no ] || command -v clang-format >/dev/null || missing+=(clang-format)
    [ ${#missing[@]} = 0 ] || die "please install: ${missing[*]} (CMake 3.22, a C++20 compiler, Ninja, git, zlib, utf8proc; for tests doctest, clang-format)"
}

# build PRESET [-Dname=value…] [--target NAME…]: configures one preset and builds it, or those targets of it.
build() {
    local preset="$1" defines=()
    shift
    while [ $# -gt 0 ] && [ "$1" != --target ]; do
        defines+=("$1")
        shift
    done
    cmake --preset "$preset" "${defines[@]+"${defines[@]}"}"
    cmake --build --preset "$preset" --parallel "$(cores)" "$@"
}

# bench_with BUILD [THEIRS]: what a measurement, or a comparison with the pinned llama.cpp's program THEIRS, needs from a build:
# sets bench, theirs, work (removed at the end) and models.
bench_with() {
    bench="$1/bin/llama-diffusion-bench"
    theirs="$1/upstream/${2:-}"
    [ -x "$bench" ] || die "$bench is not there"
    [ $# = 1 ] || [ -x "$theirs" ] || die "$theirs is not there"
    work="$(mktemp -d)"
    trap 'rm -rf "$work"' EXIT
    models="${XDG_CACHE_HOME:-$HOME/.cache}/buoy/bench"
    mkdir -p "$models"
}

# make_random_model SPEC: sets model to a file of random weights, made once.
make_random_model() {
    model="$models/$(printf '%s' "$1" | tr ':,=' '---').gguf"
    [ -e "$model" ] || { say "making $model"; "$bench" --make-model "$1" -o "$model"; }
}

cpu_name() {
    if [ -r /proc/cpuinfo ]; then
        sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1
    else
        sysctl -n machdep.cpu.brand_string 2>/dev/null || uname -m
    fi
}

# The end of a line below a table: what was measured, and beside what.
measured_on() { echo "$(cpu_name), $(cores) cores; load $(uptime | sed 's/.*load average[s]*: *//'); $("$bench" --version)"; }

# columns NAME: that field of every row of a CSV table without quoted commas.
columns() {
    awk -F, -v name="$1" '{ gsub(/"/, "") } NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) at = i } NR > 1 { print $at }'
}

# For awk: the median of list[1] … list[n], which it sorts.
# shellcheck disable=SC2034
awk_median='
    function median(list, n,    i, j, t) {
        for (i = 2; i <= n; i++)
            for (j = i; j > 1 && list[j - 1] > list[j]; j--) { t = list[j]; list[j] = list[j - 1]; list[j - 1] = t }
        return n % 2 ? list[(n + 1) / 2] : (list[n / 2] + list[n / 2 + 1]) / 2
    }'
