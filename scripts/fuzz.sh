#!/usr/bin/env bash
# Usage: scripts/fuzz.sh FOLDER [RUNS]. Builds the libFuzzer targets with clang, ASan and UBSan, and runs each with RUNS
# inputs (20 million by default).
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/compiler_cache.sh
CC=clang CXX=clang++ cmake -S . -B "$1" -G Ninja -DJAXINA_BUILD_FUZZERS=ON -DJAXINA_BUILD_TESTS=OFF \
  -DJAXINA_SANITIZE=address,undefined -DJAXINA_FUZZ_RUNS="${2:-20000000}"
cmake --build "$1" -j "$(nproc)" --target fuzz
