#!/usr/bin/env bash
# Usage: scripts/sanitized_seeds.sh FOLDER. Builds only the simulator, with ASan and UBSan, and runs seeds on all cores:
# 20,000 of the swarm, 2,000 of RDMA messages and shared memory, 1,500 of switches that combine updates, 500 of rings,
# and 1,200 of narrow words.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/compiler_cache.sh
cmake -S . -B "$1" -G Ninja -DJAXINA_BUILD_TESTS=OFF -DJAXINA_SANITIZE=address,undefined >/dev/null
# The simulator's many small allocations cost the most. So ASan records short stacks for them, and holds fewer freed
# ones back.
export ASAN_OPTIONS=malloc_context_size=5:quarantine_size_mb=16
cmake --build "$1" -j "$(nproc)" --target sim_seeds
