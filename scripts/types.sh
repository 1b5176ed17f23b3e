#!/usr/bin/env bash
# Usage: scripts/types.sh VENV. Runs mypy over the package jaxina as it is installed: p4/controller is jaxina.controller there.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
rm -rf build/types/jaxina
mkdir -p build/types/jaxina
ln -s "$root"/jaxina/* "$root/p4/controller" build/types/jaxina
cd build/types
"$root/$1/bin/mypy" --config-file "$root/pyproject.toml"
