#!/usr/bin/env bash
# Usage: [P4FLAGS=...] scripts/p4.sh [OUT]. Compiles the P4 program in both sizes into OUT/one-pipe and OUT/four-pipes
# (OUT is build/p4 by default), and reports which resources of the chip they take. It needs a Tofino compiler on the
# PATH: bf-p4c, or a p4c that was built with ENABLE_TOFINO. Without one it says so and does nothing. P4FLAGS are passed
# to the compiler.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-build/p4}

find_compiler() {
  for name in bf-p4c p4c; do
    command -v "$name" >/dev/null && "$name" --target-help 2>/dev/null | grep -q 'tofino' && echo "$name" && return
  done
  return 1
}
if ! compiler=$(find_compiler); then
  echo "p4: skipped: no P4 compiler for Tofino on PATH (bf-p4c, or p4c built from github.com/p4lang/p4c with ENABLE_TOFINO)"
  exit 0
fi
"$compiler" --version

failed=0
for size in one-pipe:1 four-pipes:4; do
  folder=$out/${size%:*}
  rm -rf "$folder"
  mkdir -p "$folder"
  echo "p4: ${size%:*}: compiling into $folder"
  start=$SECONDS
  # -g makes the compiler write its reports.
  if "$compiler" --target tofino --arch tna -g -D "PIPES=${size#*:}" ${P4FLAGS:-} -o "$folder" p4/tofino/jaxina.p4 >"$folder/compiler.log" 2>&1; then
    echo "p4: ${size%:*}: compiled in $((SECONDS - start)) s"
    python3 p4/tofino/resources.py "$folder"
  else
    failed=1
    grep -E 'error' "$folder/compiler.log" | head -20
    echo "p4: ${size%:*}: failed; see $folder/compiler.log"
  fi
done
exit $failed
