#!/usr/bin/env bash
# Usage: scripts/sanitized_seeds.sh FOLDER. Builds the simulator alone with ASan and UBSan, and runs 20,000 seeds of the
# swarm and 2,000 of RDMA messages and shared memory on all cores.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/compiler_cache.sh
cmake -S . -B "$1" -G Ninja -DJAXINA_BUILD_TESTS=OFF -DJAXINA_SANITIZE=address,undefined >/dev/null
# The simulator's many small allocations are what costs: short stacks for them, and fewer freed ones held back.
export ASAN_OPTIONS=malloc_context_size=5:quarantine_size_mb=16
cmake --build "$1" -j "$(nproc)" --target sim_seeds
