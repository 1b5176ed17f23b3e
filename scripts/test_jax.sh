#!/usr/bin/env bash
# Usage: scripts/test_jax.sh [VERSION]. Runs the Python tests with the newest Python found from 3.12 on, in an environment
# of its own: with the newest JAX there all that have to do with JAX or with Python itself, or those of JAX's side with JAX
# VERSION (0.11, say). `make test` runs the others: they see nothing of JAX. Without such a Python it says so and succeeds.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/parts.sh

newest_python() {
  local candidate
  local versions="$HOME/.pyenv/versions"
  for candidate in python3.14 "$versions"/3.14*/bin/python python3.13 "$versions"/3.13*/bin/python \
    python3.12 "$versions"/3.12*/bin/python; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 12))' >/dev/null 2>&1; then
      "$candidate" -c 'import sys; print(sys.executable)'
      return
    fi
  done
}

python=$(newest_python)
if [ -z "$python" ]; then
  echo "another JAX: skipped, no Python from 3.12 on was found on the path or under ~/.pyenv/versions"
  exit 0
fi
version=${1:-newest}
venv=.venv-$version
tests=()
for file in tests/python/test_*.py; do
  case $file in
    */test_control_*|*/test_p4_*|*/test_tofino_*|*/test_reliability_*|*/test_sim.py|*/test_config.py|*/test_errors.py) ;;
    */test_engine_layers.py|*/test_cli_switch.py|*/test_numerics.py|*/test_numerics_native.py) ;;
    *) tests+=("$file") ;;
  esac
done
if [ "$version" != newest ]; then
  tests=(tests/python/test_collectives_*.py tests/python/test_job.py)
  . scripts/python_packages.sh
  make_venv "$python" "$venv"
  install "$venv" -q "jax==$version.*"
fi
PYTHON=$python part "$version JAX: setup" scripts/setup.sh "$venv"
part "$version JAX: Python tests" scripts/test_python.sh "$venv" "${tests[@]}"
"$venv/bin/python" -c 'import jax, sys; print("passed with JAX", jax.__version__, "on Python", sys.version.split()[0])'
