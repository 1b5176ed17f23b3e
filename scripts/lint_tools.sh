#!/usr/bin/env bash
# Usage: scripts/lint_tools.sh VENV. Installs the tools that check the code into VENV: the extra `lint` of pyproject.toml, which
# pins their versions. Does nothing where they are installed.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$1
[ "$venv/.lint-tools" -nt pyproject.toml ] && exit 0
. scripts/python_packages.sh
install "$venv" -q -r pyproject.toml --extra lint # without jaxina itself
touch "$venv/.lint-tools"
