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
# Workers keep freed memory, as those of `jaxina run` do: docs/clusters.md, "Memory".
if [ "${JAXINA_KEEP_MEMORY:-yes}" != no ]; then
  keep=glibc.malloc.mmap_threshold=1099511627776:glibc.malloc.trim_threshold=1099511627776:glibc.malloc.hugetlb=1
  export GLIBC_TUNABLES=$keep${GLIBC_TUNABLES:+:$GLIBC_TUNABLES}
fi
# mpirun passes on variables by name only.
forward=()
for name in $(compgen -e | grep -E '^(JAXINA_|JAX_|GLIBC_TUNABLES$)'); do
  forward+=(-x "$name")
done
exec mpirun -n "$workers" --bind-to none "${forward[@]}" "${options[@]}" "${PYTHON:-python3}" "$@"
