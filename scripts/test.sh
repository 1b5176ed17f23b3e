#!/usr/bin/env bash
# Usage: scripts/test.sh VENV. Builds and runs the native tests, then 20,000 seeds of the simulator under ASan and
# UBSan, then the Python tests. It runs all of them, even if some fail.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$PWD/$1/bin
start=$SECONDS
export PATH="$bin:$PATH"
. scripts/parts.sh
mkdir -p out
rm -f out/native.xml out/python.xml

native=0
part "native tests: build" scripts/build_native.sh build/native
part "native tests" ctest --test-dir build/native -j "$(nproc)" --output-on-failure --output-junit "$PWD/out/native.xml" \
  --no-tests=error || native=$?

seeds=0
part "seeds under sanitizers" scripts/sanitized_seeds.sh build/seeds-address || seeds=$?

python=0
part "Python tests" scripts/test_python.sh "$1" --junitxml out/python.xml || python=$?

python3 - out/native.xml out/python.xml <<'PY'
import sys
import xml.etree.ElementTree as tree

for kind, file in zip(("native", "Python"), sys.argv[1:]):
    suites = [s for s in tree.parse(file).getroot().iter("testsuite")]
    total = {k: sum(int(s.get(k, 0)) for s in suites) for k in ("tests", "failures", "errors", "skipped")}
    failed = total["failures"] + total["errors"]
    print(f"{kind} tests: {total['tests']} run, {failed} failed, {total['skipped']} skipped")
PY
echo "tests took $((SECONDS - start)) s"
[ $native -eq 0 ] && [ $seeds -eq 0 ] && [ $python -eq 0 ]
