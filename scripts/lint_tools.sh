#!/usr/bin/env bash
# Usage: scripts/lint_tools.sh VENV. Installs the tools that check the code into VENV: the extra `lint` of pyproject.toml, which
# pins their versions. Does nothing where they are installed.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$1
[ "$venv/.lint-tools" -nt pyproject.toml ] && exit 0
mapfile -t tools < <("$venv/bin/python" - <<'PY'
import tomllib

with open("pyproject.toml", "rb") as file:
    print(*tomllib.load(file)["project"]["optional-dependencies"]["lint"], sep="\n")
PY
)
. scripts/python_packages.sh
install "$venv" -q "${tools[@]}"
touch "$venv/.lint-tools"
