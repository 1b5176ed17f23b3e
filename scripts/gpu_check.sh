#!/usr/bin/env bash
# Usage: [PYTHON=python3] scripts/gpu_check.sh [PART...]. Tries everything about GPUs on a machine that has one. It needs
# no network. It goes on after a step that fails, prints one table, and succeeds only if every step has. The logs are in
# out/gpu-check/. Without PARTs, it runs all. None takes more than 10 minutes:
#   build     the environment, the tests' and benchmark's programs, and both packages
#   kernels   the tests, the kernels under compute-sanitizer, and their benchmark
#   jobs      psums of two processes and of all GPUs, and the MNIST example
#
# It needs a GPU with its driver, nvcc of CUDA 12 or 13, a C++20 compiler, Python with its headers, and JAX with its
# CUDA plugin in PYTHON's environment. Further Python packages, GoogleTest and libdeflate may be on the machine already.
# If not, they come from build/gpu-wheels, which `make gpu-wheels` fills on a machine with a network.
set -uo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
wheels=$PWD/build/gpu-wheels
venv=$PWD/build/gpu-venv
build=$PWD/build/gpu
logs=$PWD/out/gpu-check
export PATH="$PATH:/usr/local/cuda/bin"
mkdir -p "$logs"
parts=(build kernels jobs)
. scripts/chosen_parts.sh
choose_parts "$@"
table=()
failed=0

# step NAME SECONDS COMMAND...: runs a step of at most so many seconds. The last line that it prints goes into the
# table.
step() {
  local name=$1 limit=$2 start=$SECONDS code=0
  shift 2
  printf '== %s\n' "$name"
  timeout --kill-after=10 "$limit" "$@" >"$logs/$name.log" 2>&1 </dev/null || code=$?
  local result=ok
  case $code in
    0) ;;
    3) result="not possible here" failed=1 ;;
    124 | 137) result="took longer than $limit s" failed=1 ;;
    *) result="FAILED ($code)" failed=1 ;;
  esac
  table+=("$(printf '%-20s %-18s %4d s  %s' "$name" "$result" $((SECONDS - start)) "$(grep -v '^ *$' "$logs/$name.log" | tail -1 | cut -c1-150)")")
  [ $code -eq 0 ] || tail -15 "$logs/$name.log"
  return $code
}

# Ends a step that cannot be done on this machine, and says why.
impossible() {
  echo "$*"
  return 3
}

machine() {
  "$python" --version
  command -v nvcc >/dev/null && nvcc --version | grep release || echo "no nvcc in the PATH"
  command -v nvidia-smi >/dev/null || { impossible "no GPU: nvidia-smi is not there"; return; }
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader || { impossible "no GPU: nvidia-smi fails"; return; }
  nvidia-smi
  date -u
  "$python" -c 'import jax; print("JAX", jax.__version__, "sees", *[d.device_kind for d in jax.devices("cuda")])'
}

# Makes a virtual environment on top of PYTHON's, with the packages that PYTHON's lacks.
environment() {
  "$python" -m venv --clear "$venv" || return
  local site
  site=$("$venv/bin/python" -c 'import site; print(site.getsitepackages()[0])')
  "$python" -c 'import site; print("\n".join(site.getsitepackages() + [site.getusersitepackages()]))' >"$site/below.pth"
  "$venv/bin/python" -c 'import jax, numpy' || { impossible "PYTHON=$python has no JAX"; return; }
  local missing
  missing=$("$venv/bin/python" - scripts/gpu_wheels.txt <<'PY'
import importlib.metadata as metadata
import pathlib
import re
import sys

lines = pathlib.Path(sys.argv[1]).read_text().splitlines()
for line in lines:
    if line and not line.startswith("#"):
        try:
            metadata.version(re.split("[=<>]", line)[0])
        except metadata.PackageNotFoundError:
            print(line)
PY
  )
  if [ -n "$missing" ]; then
    echo "missing in $python:" $missing
    [ -d "$wheels" ] || { impossible "no $wheels: run make gpu-wheels where there is a network, and copy it here"; return; }
    "$venv/bin/pip" install -q --no-deps --no-index --find-links "$wheels" $missing || return
  fi
  for package in "$wheels"/*.deb; do
    [ -e "$package" ] && dpkg -x "$package" "$build-system"
  done
  echo "$(wc -w <<<"$missing") packages taken from $wheels"
}

architecture() {
  nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | sort -u | tr -d . | sed 's/$/-real/' | paste -sd ';'
}

nvcc_is_there() {
  command -v nvcc >/dev/null || [ -n "${CUDACXX:-}" ] || impossible "no nvcc: install CUDA 12 or 13, or name one with CUDACXX"
}

native() {
  export PATH="$venv/bin:$PATH"
  nvcc_is_there || return
  cmake -S . -B "$build" -G Ninja -DJAXINA_BUILD_TESTS=ON -DJAXINA_BUILD_GPU_CHECK=ON -DJAXINA_BUILD_CUDA=ON \
    -DPython_EXECUTABLE="$venv/bin/python" -DJAXINA_CUDA_ARCHITECTURES="$(architecture)" &&
    cmake --build "$build" -j "$(nproc)" --target $host_tests kernels_on_gpu kernel_bench
}

extension() {
  export PATH="$venv/bin:$PATH"
  nvcc_is_there || return
  local install=("$venv/bin/pip" install --no-index --no-deps --no-build-isolation)
  "${install[@]}" -C build-dir="$build-extension" -e . || return
  "${install[@]}" -C cmake.define.JAXINA_CUDA_ARCHITECTURES="$(architecture)" -C build-dir="$build-plugin" ./cuda_plugin || return
  "$venv/bin/python" -c 'from jaxina import _native; assert _native.gpu_handlers(); print(_native.gpu_facts())'
}

gpu() {
  command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1 || { impossible "needs a GPU"; return; }
}

tests() {
  [ -x "$build/tests/native/device_test" ] || { impossible "the build has failed"; return; }
  local test
  for test in $host_tests; do "$build/tests/native/$test" --gtest_brief || return; done
  "$venv/bin/pytest" -q tests/python/test_collectives_gpu.py tests/python/test_cli_info.py
}

on_gpu() {
  gpu || return
  "$build/tests/cuda/kernels_on_gpu"
}

sanitizer() {
  gpu || return
  command -v compute-sanitizer >/dev/null || { impossible "compute-sanitizer is not there"; return; }
  JAXINA_GPU_TEST_SMALL=1 compute-sanitizer --error-exitcode 9 "$build/tests/cuda/kernels_on_gpu"
}

benchmark() {
  gpu || return
  "$build/benchmarks/cuda/kernel_bench" "$logs/kernel_bench.json"
}

psum() {
  gpu || return
  "$venv/bin/python" -m jaxina.cli run "$@"
}

export LD_LIBRARY_PATH="$build-system/usr/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export CMAKE_PREFIX_PATH="$build-system/usr"
export XLA_PYTHON_CLIENT_PREALLOCATE=false # two processes share a GPU's memory
export -f machine environment native extension tests on_gpu sanitizer benchmark psum gpu impossible architecture nvcc_is_there
export python wheels venv build logs
export host_tests="device_test device_words_test pending_collectives_test cuda_kernel_bodies_test"

part_build() {
  step machine 40 bash -c machine
  step environment 80 bash -c environment
  step build 240 bash -c native
  step extension 240 bash -c extension
}

part_kernels() {
  step tests 120 bash -c tests
  step tests-on-gpu 120 bash -c on_gpu
  step compute-sanitizer 120 bash -c sanitizer
  step kernel-benchmark 90 bash -c benchmark
}

part_jobs() {
  export CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-0}
  step psum-2-processes 120 bash -c 'psum -n 2 tests/gpu/psum_on_gpu.py'
  step psum-wide 120 env JAXINA_SLOTS=256 JAXINA_BLOCKS_PER_CHUNK=63 bash -c 'psum -n 2 tests/gpu/psum_on_gpu.py --only-time'
  step mnist 120 bash -c 'psum -n 2 examples/mnist/train.py --collective jaxina --steps 60'
  unset CUDA_VISIBLE_DEVICES
  step psum-all-gpus 120 bash -c 'psum -n 1 tests/gpu/psum_on_gpu.py --several'
}

for part in "${chosen[@]}"; do "part_$part"; done

printf '\n%s\n' "step                 result               time  last line of its log (out/gpu-check/)"
printf '%s\n' "${table[@]}"
exit $failed
