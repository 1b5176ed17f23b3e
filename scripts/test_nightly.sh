#!/usr/bin/env bash
# Usage: scripts/test_nightly.sh VENV. What takes too long for `make test`: the Python tests marked nightly, and the native
# tests built with the sanitizers.
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
