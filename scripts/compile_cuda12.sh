#!/usr/bin/env bash
# Usage: scripts/compile_cuda12.sh FOLDER, after scripts/compile_cuda.sh FOLDER. Compiles the GPU code against CUDA 12.
# PyPI has CUDA 12's headers and assembler, but not its nvcc, so clang compiles. Without a suitable clang it says so and
# does nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$1
toolkit=$folder/cuda12
. scripts/python_packages.sh
packages=(nvidia-cuda-{runtime,nvcc,cccl}-cu12==12.9.\*)
targets=(sm_80 sm_90) # CUDA 12 has them, and clang 19 knows them

find_clang() { # prints the oldest clang that supports CUDA 12 and C++20 well enough
  local version
  for version in 19 20 21; do
    command -v "clang++-$version" && return
  done
  return 1
}
if ! clang=$(find_clang); then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update -q && apt-get install -q -y --no-install-recommends clang-19; } >/dev/null 2>&1 || true
  fi
  clang=$(find_clang) || { echo "CUDA 12: skipped, it needs clang++-19 or newer (Debian: clang-19)"; exit 0; }
fi

if [ "$(cat "$toolkit/.installed" 2>/dev/null)" != "${packages[*]}" ]; then
  rm -rf "$toolkit"
  install "$folder-venv" -q --no-deps --target "$toolkit/packages" "${packages[@]}"
  # Lays the packages out as clang expects a toolkit.
  mkdir -p "$toolkit/include" "$toolkit/bin"
  for package in "$PWD/$toolkit"/packages/nvidia/cuda_{runtime,nvcc,cccl}; do cp -rsf "$package/include/." "$toolkit/include/"; done
  cp -s "$PWD/$toolkit/packages/nvidia/cuda_nvcc/bin/ptxas" "$toolkit/bin/"
  cp -rs "$PWD/$toolkit/packages/nvidia/cuda_nvcc/nvvm" "$toolkit/"
  touch "$toolkit/include/curand_mtgp32_kernel.h" # clang's own headers include it, but jaxina uses nothing of it
  echo "${packages[*]}" >"$toolkit/.installed"
fi
handler=$("$folder-venv/bin/python" -c 'import jaxlib; print(jaxlib.__path__[0] + "/include")')

common=(-std=c++20 -I. -Wall -Wextra -Werror -fvisibility=hidden)
# clang does not know __grid_constant__. Ignoring it is harmless: it only saves a copy.
kernels=(-x cuda -O3 -ffp-contract=off --cuda-path="$toolkit" -Wno-unknown-cuda-version -Wno-unknown-attributes)
mapfile -t sources < <(ls cuda_kernels/*.cu)
mapfile -t callers < <(ls xla_ffi/gpu/*.cc tests/cuda/*.cc benchmarks/cuda/*.cc | grep -v loaded_part.cc)
objects=$toolkit/objects
mkdir -p "$objects"
jobs() {
  local file target
  for file in "${sources[@]}"; do
    for target in "${targets[@]}"; do
      echo "${common[*]} ${kernels[*]} --cuda-gpu-arch=$target --cuda-device-only -c $file -o $objects/$(basename "$file").$target"
    done
    echo "${common[*]} ${kernels[*]} --cuda-gpu-arch=${targets[0]} --cuda-host-only -c $file -o $objects/$(basename "$file").o"
  done
  for file in "${callers[@]}"; do
    echo "${common[*]} -O2 -isystem $handler -isystem $toolkit/include -c $file -o $objects/$(basename "$file").o"
  done
}
jobs | xargs -P "$(nproc)" -I {} sh -c "$clang {}"
echo "CUDA 12.9: ${#sources[@]} files of kernels assembled for ${targets[*]}, ${#callers[@]} files that call them or CUDA compiled, with $("$clang" --version | head -1)"
