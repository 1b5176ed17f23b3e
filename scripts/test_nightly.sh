#!/usr/bin/env bash
# Usage: scripts/test_nightly.sh VENV. What takes too long for `make test`: the Python tests marked nightly, the native
# tests built with the sanitizers, many seeds of the simulator, and the protocol's model.
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
cmake --build build/native-address --target sim_seeds || failed+=("20,000 seeds of the simulator, address,undefined")
if command -v spin >/dev/null; then
  formal/check.py || failed+=("model of the slot protocol")
else
  echo "model of the slot protocol: skipped, it needs Debian's package spin"
fi

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
