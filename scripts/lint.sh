#!/usr/bin/env bash
# Usage: scripts/lint.sh VENV. Checks format, lint and types, and that the committed stubs are what scripts/stubs.sh writes. Runs
# all checks, whatever fails. jaxina must be installed in VENV. scripts/tidy.sh has clang-tidy, which takes much longer.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$1
bin=$PWD/$venv/bin
failed=()

check() { # NAME COMMAND...
  echo "== $1"
  "${@:2}" || failed+=("$1")
}

of_kind() { git ls-files --cached --others --exclude-standard --deduplicate "$@"; }

stubs() {
  rm -rf build/stubs
  scripts/stubs.sh "$venv" build/stubs || return
  local file differ=0
  while read -r file; do
    diff -u "$file" "build/stubs/$file" || differ=1
  done < <(cd build/stubs && find jaxina -name '*.pyi')
  return $differ
}

scripts/lint_tools.sh "$venv"
check "ruff format" "$bin/ruff" format --check .
check "ruff check" "$bin/ruff" check .
check "mypy" scripts/types.sh "$venv"
of_kind '*.h' '*.cc' '*.cu' > build/native-files.list
check "clang-format" "$bin/clang-format" --dry-run -Werror --files=build/native-files.list
check "stubs (make stubs writes them)" stubs

if [ ${#failed[@]} -gt 0 ]; then
  printf 'failed: %s\n' "${failed[@]}" >&2
  exit 1
fi
