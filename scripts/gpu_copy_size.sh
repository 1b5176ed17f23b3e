#!/usr/bin/env bash
# Usage: scripts/gpu_copy_size.sh FOLDER [MIB]. Says how large a copy of this working tree and of FOLDER is. Fails if it
# has more than so many MiB (64 by default, as docs/gpu.md says).
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$1 limit=${2:-64}
# The bytes of the files whose names come in, each ended by a zero byte. A sparse working tree lacks some of git's files.
bytes() { { xargs -0 -r stat --format=%s -- 2>/dev/null || true; } | awk '{ sum += $1 } END { print sum + 0 }'; }
mib() { awk -v bytes="$1" 'BEGIN { printf "%.1f MiB", bytes / 1048576 }'; }
tree=$(git ls-files -z --cached --others --exclude-standard | bytes)
brought=$(find "$folder" -type f -print0 | bytes)
both=$((tree + brought))
echo "$folder: $(mib "$brought"), working tree: $(mib "$tree"), together: $(mib "$both") of at most $limit MiB"
if [ $both -gt $((limit * 1048576)) ]; then
  echo "This is too large to copy. make gpu-check does without some of the tree; to leave it out:" >&2
  echo "  git sparse-checkout set --no-cone '/*' '!/experiments/results' '!/notebooks'" >&2
  exit 1
fi
