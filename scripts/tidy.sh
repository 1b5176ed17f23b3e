#!/usr/bin/env bash
# Usage: scripts/tidy.sh VENV [FILE...]. Runs clang-tidy with the checks of .clang-tidy over these C++ files, or all. All take
# many minutes. Nothing is compiled: CMake only says how each file would be. Files that this
# configuration does not compile are left out: CUDA's, and the fuzzers.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/lint_tools.sh "$1"
bin=$PWD/$1/bin
shift
export PATH="$bin:$PATH"
cmake -S . -B build/tidy -G Ninja -DJAXINA_BUILD_TESTS=ON -DJAXINA_BUILD_PYTHON=ON -DPython_EXECUTABLE="$bin/python" >/dev/null
# Some files are compiled several times, for the mutants for example. clang-tidy would check such a file as often, so it
# gets a list with each file's first compilation, which is not that of a mutant.
mkdir -p build/tidy/once
python - >build/tidy/once/files <<'PY'
import json
import os

with open("build/tidy/compile_commands.json") as all_commands:
    first = {}
    for command in json.load(all_commands):
        first.setdefault(os.path.relpath(command["file"]), command)
with open("build/tidy/once/compile_commands.json", "w") as commands:
    json.dump(list(first.values()), commands)
own = sorted(file for file in first if not file.startswith(("..", ".venv", "build")))
print(*sorted(own, key=lambda file: file.startswith("tests/")), sep="\n")  # the tests take longest
PY
files=("$@")
[ $# -gt 0 ] || mapfile -t files <build/tidy/once/files
printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(nproc)" clang-tidy -quiet -p build/tidy/once
