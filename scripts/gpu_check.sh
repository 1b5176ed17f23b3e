#!/usr/bin/env bash
# Usage: [PYTHON=python3] scripts/gpu_check.sh [PART...]. Tries everything about GPUs on a machine that has one. It needs
# no network and no compiler: `make gpu-wheels` has built and gathered everything in build/gpu-wheels. It goes on after
# a step that fails, prints a row of a table after each, and succeeds only if every step has (or is "not run": one GPU
# cannot do what several are for). The logs are in out/gpu-check/.
# Without PARTs, it runs all. No part takes more than 10 minutes, even if each of its steps hangs. Those after `install`
# need it, and may run side by side:
#   install   an environment with jaxina, on top of PYTHON's
#   kernels   the kernels' bits, also under compute-sanitizer
#   jobs      psums of two processes by every aggregator, compressors, a worker that dies, and the MNIST example
#   times     the kernels' bandwidth, psums beside the link's floor, overlap, and examples beside NCCL; then whether NCCL
#             would hand sums to a plug-in
#
# It needs a GPU with its driver, and JAX with its CUDA plugin in PYTHON's environment. `kernels` needs
# compute-sanitizer, too, which is of the CUDA toolkit, and `times` nvidia-cuda-mps-control, which is of the driver.
# PyTorch is optional there.
# If CUDA_VISIBLE_DEVICES names several GPUs, all are used together, and the first for what needs one.
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/gpu_sources.sh
. scripts/chosen_parts.sh
python=${PYTHON:-python3}
if ! error=$("$python" -c 'import jax' 2>&1); then
  echo "$python cannot import JAX (${error##*$'\n'}). Name the Python that has it: make gpu-check PYTHON=/path/to/python" >&2
  exit 2
fi
brought=$PWD/build/gpu-wheels
venv=$PWD/build/gpu-venv
logs=$PWD/out/gpu-check
root=$PWD
export PATH="$PATH:/usr/local/cuda/bin:/usr/local/nvidia/bin"
mkdir -p "$logs"
first_gpu=${CUDA_VISIBLE_DEVICES-0}
first_gpu=${first_gpu%%,*}
parts=(install kernels jobs times)
choose_parts "$@"
failed=()

# step NAME SECONDS COMMAND...: runs a step of at most so many seconds, then prints its row at once, because the machine
# may be taken away before the next. The row has the last line of the step's log. COMMAND may use the file $kept.
step() {
  local name=$1 limit=$2 start=$SECONDS code=0
  shift 2
  kept=$logs/$name.out timeout --kill-after=10 "$limit" "$@" >"$logs/$name.log" 2>&1 </dev/null || code=$?
  local result=ok
  case $code in
    0) ;;
    3) result="not possible here" ;;
    4) result="not run" ;;
    124 | 137) result="took longer than $limit s" ;;
    *) result="FAILED ($code)" ;;
  esac
  printf '%-20s %-18s %4d s  %s\n' "$name" "$result" $((SECONDS - start)) \
    "$(grep -v '^ *$' "$logs/$name.log" | tail -1 | cut -c1-400)"
  [ $code -eq 0 ] || tail -15 "$logs/$name.log" | sed 's/^/    | /'
  [[ $code =~ ^(0|4)$ ]] || failed+=("$name")
  return $code
}

# step_on_one: `step`, with one GPU.
step_on_one() {
  local -x CUDA_VISIBLE_DEVICES=$first_gpu
  step "$@"
}

# Ends a step that cannot be done on this machine, and says why.
impossible() {
  echo "$*"
  return 3
}

machine() {
  "$python" --version
  command -v nvidia-smi >/dev/null || { impossible "no GPU: nvidia-smi is not there"; return; }
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader || { impossible "no GPU: nvidia-smi fails"; return; }
  nvidia-smi
  nproc
  date -u
}

# Makes a virtual environment on top of PYTHON's, with jaxina, and with the packages that PYTHON's lacks or has too old.
environment() {
  [ -f "$brought/sources" ] || { impossible "no $brought: run make gpu-wheels where there is a network, and copy it here"; return; }
  [ "$(cat "$brought/sources")" = "$(gpu_sources)" ] || { impossible "$brought is of other sources: run make gpu-wheels again"; return; }
  "$python" -m venv --clear --without-pip "$venv" || return
  local site missing
  site=$("$venv/bin/python" -c 'import site; print(site.getsitepackages()[0])')
  "$python" -c 'import site; print("\n".join(site.getsitepackages() + [site.getusersitepackages()]))' >"$site/below.pth"
  missing=$("$venv/bin/python" scripts/missing_packages.py "$brought/requirements.txt") || return
  "$python" -m pip --disable-pip-version-check --python "$venv/bin/python" install -q --no-deps --no-index --no-compile \
    --find-links "$brought" $missing "$brought"/jaxina*.whl || return
  mkdir -p out/data && cp "$brought"/*.tar.gz out/data
  cd "$logs" && "$venv/bin/jaxina" info || return
  "$venv/bin/python" -c '
import jax
from jaxina import _native, _public
assert _native.gpu_handlers(), "the part for GPUs was not loaded"
print("JAX", jax.__version__, "sees", *[d.device_kind for d in jax.devices("cuda")])'
}

gpu() {
  nvidia-smi -L >/dev/null 2>&1 || { impossible "needs a GPU"; return; }
}

on_gpu() { gpu && "$brought/kernels_on_gpu"; }

sanitizer() {
  gpu || return
  command -v compute-sanitizer >/dev/null || { impossible "compute-sanitizer is not there"; return; }
  JAXINA_GPU_TEST_SMALL=1 compute-sanitizer --error-exitcode 9 "$brought/kernels_on_gpu"
}

benchmark() { gpu && "$brought/kernel_bench" "$logs/kernel_bench.json"; }

# run ARGUMENT...: `jaxina run`, in another folder, where no module hides the installed ones.
run() { gpu && cd "$logs" && "$venv/bin/jaxina" run "$@"; }

# find_in_run WORDS ARGUMENT...: `run`, which must succeed and print a line with WORDS. This line becomes the step's
# last.
find_in_run() {
  local words=$1
  shift
  set -o pipefail
  run "$@" 2>&1 | tee "$kept" || return
  grep "$words" "$kept"
}

# What compressors and sums of 64-bit types give, first on CPUs, then on the GPU.
same_as_cpu() {
  JAX_PLATFORMS=cpu run -n 2 "$root/tests/gpu/same_as_cpu.py" --write "$kept.npz" || return
  run -n 2 "$root/tests/gpu/as_other_host.py" "$root/tests/gpu/same_as_cpu.py" --compare "$kept.npz"
}

# The run fails, because a worker is killed. The other one says whether it was told in time.
lost_worker() {
  run -n 2 --grace 30 "$root/tests/gpu/lost_worker_on_gpu.py" 2>&1 | tee "$kept"
  grep "told after" "$kept"
}

mnist() { find_in_run "median step" -n 2 "$@" --steps 60; }

# 19 million parameters. The batch is of both processes together.
decoder() {
  find_in_run "ms a step" -n 2 "$@" --width 512 --depth 6 --heads 8 --length 256 --batch-size 32 --sample 0 --steps 25
}

# The GPUs of one process, without `jaxina run`, whose last line would be about the exit code if there is only one.
all_gpus() { gpu && cd "$logs" && "$venv/bin/python" "$root/tests/gpu/psum_on_gpu.py" --several --only-bits; }

# The times of psums if both processes are clients of one MPS server, so that their kernels run side by side.
with_mps() {
  command -v nvidia-cuda-mps-control >/dev/null || { impossible "nvidia-cuda-mps-control is not there"; return; }
  export CUDA_MPS_PIPE_DIRECTORY=$logs/mps CUDA_MPS_LOG_DIRECTORY=$logs/mps
  mkdir -p "$logs/mps" && nvidia-cuda-mps-control -d || return
  # Clients count the GPUs that the server sees, which is one.
  CUDA_VISIBLE_DEVICES=0 run -n 2 "$@" || return
  # A process that cannot reach the daemon runs without MPS and says nothing. For the first one that reaches it, the
  # daemon starts a server, which stays until `end_mps`.
  local servers
  servers=$(echo get_server_list | nvidia-cuda-mps-control) || return
  [[ $servers =~ ^[0-9]+ ]] || { echo "MPS was not used: its daemon has started no server"; return 1; }
}

# Ends the server of `with_mps`. It is no part of that step, because it must come also if the step takes too long.
end_mps() { echo quit | CUDA_MPS_PIPE_DIRECTORY=$logs/mps timeout 20 nvidia-cuda-mps-control >/dev/null 2>&1; }

plug_in() {
  gpu && "$venv/bin/python" "$root/benchmarks/cuda/collnet/spike.py" --jax --plugin "$brought/libnccl-net-jaxina.so" \
    --logs "$logs/collnet"
}

export XLA_PYTHON_CLIENT_PREALLOCATE=false # two processes share a GPU's memory
export JAXINA_LOG=warning                  # so that a program's last line is its result
export -f machine environment on_gpu sanitizer benchmark run find_in_run same_as_cpu lost_worker mnist decoder all_gpus with_mps \
  plug_in gpu impossible gpu_sources
export python brought venv logs root

part_install() {
  step machine 40 bash -c machine
  step environment 120 bash -c environment
}

part_kernels() {
  step_on_one tests-on-gpu 150 bash -c on_gpu
  step_on_one compute-sanitizer 200 bash -c sanitizer
}

part_jobs() {
  local way
  for way in embedded udp roce direct; do
    step_on_one "bits-$way" 60 bash -c "run -n 2 --aggregator $way \$root/tests/gpu/psum_on_gpu.py --only-bits"
  done
  step_on_one same-as-cpu 110 bash -c same_as_cpu
  step_on_one lost-worker 50 bash -c lost_worker
  step_on_one mnist 90 bash -c 'mnist "$root/examples/mnist/train.py" --collective jaxina'
  step bits-all-gpus 60 bash -c all_gpus
}

part_times() {
  step_on_one kernel-benchmark 45 bash -c benchmark
  step_on_one psum 50 bash -c 'run -n 2 "$root/tests/gpu/psum_on_gpu.py" --only-time'
  step_on_one psum-mps 50 bash -c 'with_mps "$root/tests/gpu/psum_on_gpu.py" --only-time'
  end_mps
  step_on_one overlap 80 bash -c 'run -n 2 "$root/benchmarks/jax/overlap.py" --case wait --trace "$logs/trace"'
  step_on_one mnist-jaxina 50 bash -c 'mnist "$root/examples/mnist/train.py" --collective jaxina'
  step_on_one mnist-nccl 50 bash -c 'mnist "$root/tests/gpu/as_other_host.py" "$root/examples/mnist/train.py" --collective xla'
  step_on_one decoder-jaxina 80 bash -c 'decoder "$root/examples/gpt/train.py" --collective jaxina'
  step_on_one decoder-nccl 80 bash -c 'decoder "$root/tests/gpu/as_other_host.py" "$root/examples/gpt/train.py" --collective xla'
  step_on_one nccl-plug-in 45 bash -c plug_in
}

printf '%s\n' "step                 result               time  last line of its log (out/gpu-check/)"
for part in "${chosen[@]}"; do "part_$part"; done
[ ${#failed[@]} -eq 0 ] || { echo "failed: ${failed[*]}"; exit 1; }
