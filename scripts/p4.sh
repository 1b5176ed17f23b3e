#!/usr/bin/env bash
# Usage: [P4FLAGS=...] scripts/p4.sh [OUT]. Compiles the P4 programs in all sizes into OUT/one-pipe, OUT/atp and so on (OUT is
# build/p4 by default), and reports which resources of the chip they take. It needs a Tofino compiler on the PATH:
# bf-p4c, or a p4c that was built with ENABLE_TOFINO. Without one it says so and does nothing. P4FLAGS are passed to the
# compiler.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-build/p4}

find_compiler() {
  local name targets
  for name in bf-p4c p4c; do
    command -v "$name" >/dev/null || continue
    targets=$("$name" --target-help 2>&1) || true
    [[ $targets == *tofino* ]] && echo "$name" && return
  done
  return 1
}
if ! compiler=$(find_compiler); then
  echo "p4: skipped: no P4 compiler for Tofino on PATH (bf-p4c, or p4c built from github.com/p4lang/p4c with ENABLE_TOFINO)"
  exit 0
fi
"$compiler" --version

failed=0
for size in one-pipe:1:jaxina two-pipes:2:jaxina four-pipes:4:jaxina atp:1:atp; do
  IFS=: read -r name pipes program <<<"$size"
  folder=$out/$name
  log=$folder.log  # beside the folder, which the compiler empties
  rm -rf "$folder"
  mkdir -p "$folder"
  echo "p4: $name: compiling into $folder"
  start=$SECONDS
  # -g makes the compiler write its reports.
  if "$compiler" --target tofino --arch tna -g -D "PIPES=$pipes" ${P4FLAGS:-} -o "$folder" "p4/tofino/$program.p4" >"$log" 2>&1; then
    if [ -z "$(find "$folder" -name tofino.bin)" ]; then  # a driver can end before it assembles, and not say so
      failed=1
      echo "p4: $name: the compiler reports no error, but has made no tofino.bin; see $log"
      continue
    fi
    echo "p4: $name: compiled in $((SECONDS - start)) s"
    python3 p4/tofino/check_parser.py "$folder" || failed=1
    python3 p4/tofino/resources.py "$folder"
  else
    failed=1
    grep -E 'error' "$log" | head -20 || true
    echo "p4: $name: failed; see $log"
  fi
done
exit $failed
