#!/usr/bin/env bash
# Usage: scripts/gpu_wheels.sh PYTHON FOLDER [VERSION]. Downloads the packages that `make gpu-check` may need on a
# machine without a network: wheels for Python VERSION (3.12 by default) on x86-64 Linux, and Debian's GoogleTest and
# libdeflate.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1 folder=$2 version=${3:-3.12}
mkdir -p "$folder"
platforms=()
for glibc in 2_28 2_27 2_17; do platforms+=(--platform "manylinux_${glibc}_x86_64"); done
"$python" -m pip --disable-pip-version-check download -q --no-deps --only-binary=:all: --python-version "$version" \
  "${platforms[@]}" --platform manylinux2014_x86_64 --platform any -d "$folder" -r scripts/gpu_wheels.txt
if command -v apt-get >/dev/null; then
  (cd "$folder" && apt-get -q download libgtest-dev libdeflate-dev libdeflate0 >/dev/null 2>&1) ||
    echo "Debian's packages were not downloaded: apt-get update may help"
fi
echo "$folder: $(find "$folder" -type f | wc -l) files, $(du -sh "$folder" | cut -f1)"
