#!/usr/bin/env bash
# Usage: scripts/compile_cuda.sh FOLDER. Compiles the GPU code for all targets: the shared library, tests and benchmarks.
# It needs no GPU, and takes nvcc from PyPI, into a virtual environment of its own (FOLDER-venv). Then it checks the
# kernels' machine code.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$1
venv=$folder-venv
. scripts/compiler_cache.sh
. scripts/python_packages.sh
. scripts/cuda_venv.sh

mkdir -p "$folder"
cuda_venv "${PYTHON:-python3}" "$venv"
export PATH=$PWD/$venv/bin:$CUDA_TOOLKIT/bin:$PATH
cmake -S . -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Release -DJAXINA_BUILD_CUDA=ON -DJAXINA_BUILD_GPU_CHECK=ON \
  -DJAXINA_BUILD_TESTS=OFF -DPython_EXECUTABLE="$PWD/$venv/bin/python" >"$folder/configure.log" ||
  { cat "$folder/configure.log"; exit 1; }
cmake --build "$folder" -j "$(nproc)" --target jaxina_gpu kernels_on_gpu kernel_bench nccl-net-jaxina
"$venv/bin/python" scripts/check_cuda_code.py "$CUDA_TOOLKIT/bin/cuobjdump" "$folder/cuda_kernels/libjaxina_cuda.a" sm_80 sm_90 sm_100
