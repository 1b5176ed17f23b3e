#!/usr/bin/env bash
# Usage: scripts/test_nightly.sh VENV. What takes too long for `make test`: the native tests built with the sanitizers,
# fuzzing, deaths of real processes, the protocol's model, and the Python tests marked nightly.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$PWD/$1/bin
export PATH="$bin:$PATH"
failed=()

for sanitizers in address,undefined thread; do
  folder=build/native-${sanitizers%%,*}
  scripts/build_native.sh "$folder" -DJAXINA_SANITIZE=$sanitizers
  ctest --test-dir "$folder" --output-on-failure --no-tests=error --timeout 600 || failed+=("native, $sanitizers")
done
scripts/build_native.sh build/native
build/native/tests/native/shapes_campaign 100000 "$(date +%s)" || failed+=("random shapes of jobs")
if command -v clang++ >/dev/null; then
  scripts/fuzz.sh build/fuzz 1000000 || failed+=("fuzzers")
else
  echo "fuzzers: skipped, they need clang"
fi
"$bin/python" tests/fuzz/control_fuzz.py --runs 1000000 --seed "$(date +%j)" || failed+=("fuzzing of the control messages")
"$bin/python" tests/python/death_campaign.py --kills 100 --stops 20 || failed+=("deaths of real processes")
if command -v spin >/dev/null; then
  formal/check.py || failed+=("model of the slot protocol")
else
  echo "model of the slot protocol: skipped, it needs Debian's package spin"
fi
scripts/test_jax.sh 0.11 || failed+=("JAX 0.11")

code=0
"$bin/pytest" -q -m nightly || code=$?
case $code in
  0) ;;
  5) echo "no Python test is marked nightly" ;;
  *) failed+=("Python") ;;
esac

if [ ${#failed[@]} -gt 0 ]; then
  printf 'failed: %s\n' "${failed[@]}" >&2
  exit 1
fi
