#!/usr/bin/env bash
# Usage: scripts/compile_cuda.sh FOLDER. Compiles the GPU's part for all targets, on a machine without a GPU: kernels, FFI
# handler, tests and benchmarks, with PyPI's nvcc in a virtual environment of its own (FOLDER/venv); then checks the
# kernels' machine code.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$1
venv=$folder/venv
python=${PYTHON:-python3}
. scripts/compiler_cache.sh
. scripts/python_packages.sh

# nvcc and its headers, of the version that the GPU machines have; cuobjdump, which has no 13.0, and what the handler's
# CMake asks for.
cuda=(nvidia-cuda-{nvcc,crt,runtime,cccl}==13.0.\* nvidia-nvvm==13.0.\* nvidia-cuda-{cuobjdump,nvdisasm}==13.\*)
mapfile -t handler < <("$python" -c '
import tomllib
requires = tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"]
print(*(r for r in requires if not r.startswith("scikit-build-core")), sep="\n")')
wanted="${cuda[*]} ${handler[*]}"
if [ "$(cat "$venv/.installed" 2>/dev/null)" != "$wanted" ]; then
  echo "installing nvcc into $venv"
  rm -rf "$venv"
  make_venv "$python" "$venv"
  install "$venv" -q cmake ninja "${cuda[@]}" "${handler[@]}"
  echo "$wanted" >"$venv/.installed"
fi
toolkit=$("$venv/bin/python" -c 'import nvidia; print(list(nvidia.__path__)[0] + "/cu13")')
export PATH=$PWD/$venv/bin:$toolkit/bin:$PATH CUDACXX=$toolkit/bin/nvcc
export CMAKE_CUDA_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER:-}

# The handler is compiled without the engine that it would be linked with.
cmake -S . -B "$folder" -G Ninja -DJAXINA_CUDA=ON -DJAXINA_BUILD_GPU_CHECK=ON -DJAXINA_BUILD_PYTHON=ON \
  -DJAXINA_BUILD_TESTS=OFF -DCMAKE_OPTIMIZE_DEPENDENCIES=ON -DPython_EXECUTABLE="$PWD/$venv/bin/python" >"$folder/configure.log" ||
  { cat "$folder/configure.log"; exit 1; }
cmake --build "$folder" -j "$(nproc)" --target jaxina_ffi kernels_on_gpu kernel_bench
"$venv/bin/python" scripts/check_cuda_code.py "$toolkit/bin/cuobjdump" "$folder/cuda_kernels/libjaxina_cuda.a" sm_80 sm_90 sm_100
