#!/usr/bin/env bash
# Usage: scripts/compile_cuda.sh FOLDER. Compiles the GPU code for all targets: the shared library, tests and benchmarks.
# It needs no GPU, and takes nvcc from PyPI, into a virtual environment of its own (FOLDER/venv). Then it checks the
# kernels' machine code.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$1
venv=$folder/venv
python=${PYTHON:-python3}
. scripts/compiler_cache.sh
. scripts/python_packages.sh

# What the package is built with, nvcc among it, and cuobjdump. cuobjdump has no 13.0, so any 13 will do.
mapfile -t packages < <("$python" -c '
import tomllib
print(*tomllib.load(open("cuda_plugin/pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")')
packages+=(nvidia-cuda-{cuobjdump,nvdisasm}==13.\*)
wanted="${packages[*]}"
if [ "$(cat "$venv/.installed" 2>/dev/null)" != "$wanted" ]; then
  echo "installing nvcc into $venv"
  rm -rf "$venv"
  make_venv "$python" "$venv"
  install "$venv" -q cmake ninja "${packages[@]}"
  echo "$wanted" >"$venv/.installed"
fi
toolkit=$("$venv/bin/python" -c 'import nvidia; print(list(nvidia.__path__)[0] + "/cu13")')
export PATH=$PWD/$venv/bin:$toolkit/bin:$PATH CUDACXX=$toolkit/bin/nvcc
export CMAKE_CUDA_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER:-}

cmake -S . -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Release -DJAXINA_BUILD_CUDA=ON -DJAXINA_BUILD_GPU_CHECK=ON \
  -DJAXINA_BUILD_TESTS=OFF -DPython_EXECUTABLE="$PWD/$venv/bin/python" >"$folder/configure.log" ||
  { cat "$folder/configure.log"; exit 1; }
cmake --build "$folder" -j "$(nproc)" --target jaxina_gpu kernels_on_gpu kernel_bench
"$venv/bin/python" scripts/check_cuda_code.py "$toolkit/bin/cuobjdump" "$folder/cuda_kernels/libjaxina_cuda.a" sm_80 sm_90 sm_100
