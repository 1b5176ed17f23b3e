#!/bin/bash
# Usage: deploy/mpirun/train.sh WORKERS [MPIRUN_OPTION...] -- PROGRAM.py [ARGUMENT...]. Starts the workers with Open MPI's mpirun.
set -euo pipefail
workers=$1
shift
options=()
while [ "$1" != -- ]; do
  options+=("$1")
  shift
done
shift
export JAXINA_AGGREGATOR=${JAXINA_AGGREGATOR:-direct}
# mpirun passes on variables by name only.
forward=()
for name in $(compgen -e | grep -E '^(JAXINA|JAX)_'); do
  forward+=(-x "$name")
done
exec mpirun -n "$workers" --bind-to none "${forward[@]}" "${options[@]}" "${PYTHON:-python3}" "$@"
