#!/usr/bin/env bash
# Compiles everything with ggml's CUDA backend, for one architecture, and runs what needs no device.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
    cat <<'TEXT'
usage: scripts/check-cuda.sh [--full] [--arch N] [--build DIR]
  --full       kernels as they are used: optimised machine code. Without it nvcc stops at PTX and optimises nothing, which
               takes a fifth of the time and shows as well whether everything compiles and links
  --arch N     compute capability without the dot (default 86)
  --build DIR  build directory (default build-cuda)
TEXT
}

full=no arch=86 dir=build-cuda
while [ $# -gt 0 ]; do
    case "$1" in
        --full) full=yes ;;
        --arch | --build)
            [ $# -gt 1 ] || { usage >&2; die "$1 needs a value"; }
            if [ "$1" = --arch ]; then arch="$2"; else dir="$2"; fi
            shift
            ;;
        -h | --help) usage; exit 0 ;;
        *) usage >&2; die "unknown argument: $1" ;;
    esac
    shift
done

nvcc="${CUDACXX:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}"
[ -x "$nvcc" ] || die "no nvcc: CUDA is not checked (install the CUDA toolkit, or set CUDACXX)"
say "$("$nvcc" --version | tail -n 2 | head -n 1)"

args=(-DBUOY_CUDA=ON "-DCMAKE_CUDA_COMPILER=$nvcc")
if [ $full = yes ]; then
    args+=("-DCMAKE_CUDA_ARCHITECTURES=$arch-real")
else
    args+=("-DCMAKE_CUDA_ARCHITECTURES=$arch-virtual" "-DBUOY_GGML_ARGS=-DCMAKE_CUDA_FLAGS_RELEASE=-O0 -Xcicc -O0 -DNDEBUG")
fi
cmake --preset default -B "$dir" -DBUOY_WERROR=ON "${args[@]}"
cmake --build "$dir" --parallel "$(cores)"

# Without a driver there is no device: one warning, and everything runs on the CPU.
cli="$dir/bin/llama-diffusion-cli"
ldd "$cli" | grep -q 'libcudart' || die "$cli does not use the CUDA runtime"
if ldd "$cli" | grep -q 'libcuda\.so'; then
    die "$cli needs libcuda.so.1, so it would not start without a driver"
fi
"$cli" --list-devices
"$cli" -m buoy-mdm -p "Tell a story about Mira and a fox." -n 16 --seed 1 -ngl 0
say "CUDA: compiled, linked and started"
