#!/usr/bin/env bash
# Usage: scripts/build_native.sh FOLDER [CMAKE_OPTION...]. Builds the native libraries and tests, without Python.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$1
shift
. scripts/compiler_cache.sh
cmake -S . -B "$folder" -G Ninja -DJAXINA_BUILD_TESTS=ON "$@"
cmake --build "$folder" -j "$(nproc)"
