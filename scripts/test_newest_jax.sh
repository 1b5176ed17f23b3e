#!/usr/bin/env bash
# Usage: scripts/test_newest_jax.sh. Runs the Python tests with the newest Python found from 3.12 on and the newest JAX
# there, in an environment of its own. Without such a Python it says so and succeeds.
set -euo pipefail
cd "$(dirname "$0")/.."

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
  echo "newest JAX: skipped, no Python from 3.12 on was found on the path or under ~/.pyenv/versions"
  exit 0
fi
venv=.venv-newest
PYTHON=$python scripts/setup.sh $venv
"$venv/bin/pytest" -q -m "not nightly"
"$venv/bin/python" -c 'import jax, sys; print("newest JAX: passed with JAX", jax.__version__, "on Python", sys.version.split()[0])'
