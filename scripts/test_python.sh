#!/usr/bin/env bash
# Usage: scripts/test_python.sh VENV [PYTEST_ARGUMENT...]. Runs the Python tests, or those named, in more processes than
# there are cores: many tests wait, for deadlines or for programs that start. The tests of one file run one after another
# in one process: they share what JAX has compiled.
set -euo pipefail
cd "$(dirname "$0")/.."
"$1/bin/pytest" -q -m "not nightly" -n "$(($(nproc) + 2))" --dist loadfile "${@:2}"
