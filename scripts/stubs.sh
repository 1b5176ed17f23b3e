#!/usr/bin/env bash
# Usage: scripts/stubs.sh VENV [FOLDER]. Writes the type stubs of what is not written in Python, jaxina._native and the
# protocols' messages, into this repository, or into FOLDER. jaxina must be installed in VENV, with its extra `lint`.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$PWD/$1/bin
folder=${2:-.}
mkdir -p "$folder/jaxina/control" "$folder/jaxina/fabric/service" "$folder/jaxina/elastic"

"$bin/python" -m nanobind.stubgen -q -r -D -p xla_ffi/native_stub_patterns.txt -m jaxina._native -O "$folder/jaxina"

# By way of a descriptor set, which has no comments: these change more often than what they stand at.
messages=$(mktemp)
trap 'rm -f "$messages"' EXIT
for protocol in jaxina/control/control.proto jaxina/fabric/service/fabric.proto jaxina/elastic/elastic.proto; do
  protoc() { PATH=$bin:$PATH "$bin/python" -m grpc_tools.protoc "$@" "$protocol"; }
  protoc -I . --descriptor_set_out="$messages"
  protoc --descriptor_set_in="$messages" --mypy_out="quiet:$folder" --mypy_grpc_out="quiet:$folder"
done
"$bin/ruff" format -q "$folder"/jaxina/_native/*.pyi "$folder"/jaxina/{control,fabric/service,elastic}/*.pyi
