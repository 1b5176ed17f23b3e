#!/usr/bin/env bash
# Usage: scripts/p4.sh [OUT]. Compiles the P4 program in both sizes with the Tofino compiler that is on PATH (bf-p4c, or a p4c
# that was built with ENABLE_TOFINO), into OUT/one-pipe and OUT/four-pipes (default build/p4), and reports what it takes of the
# chip. Says so and does nothing where there is no such compiler. P4FLAGS are handed to it.
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
  # -g writes the reports.
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
