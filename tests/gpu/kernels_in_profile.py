"""Says how long jaxina's kernels ran in a profile of JAX, and at which speed they moved float32.

python tests/gpu/kernels_in_profile.py FOLDER    # as psum_on_gpu.py --profile FOLDER wrote it
"""

from __future__ import annotations

import collections
import gzip
import json
import re
import sys
from pathlib import Path

BYTES_OF_A_THREAD_BLOCK = 8 * 256 * 4  # 8 groups of 32 threads, each with a block of 256 float32


def main(folder: str) -> None:
    (file,) = Path(folder).rglob("*.trace.json.gz")
    count, busy, moved = collections.Counter[str](), collections.Counter[str](), collections.Counter[str]()
    for event in json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]:
        kind = re.search(r"jaxina::cuda::.*?(\w+)_kernel<", event.get("name", ""))
        # The profiler lists a kernel twice. Only one of the two has its grid.
        grid = re.search(r"grid:(\d+)", event.get("args", {}).get("kernel_details", "")) if kind else None
        if kind and grid:
            count[kind[1]] += 1
            busy[kind[1]] += event["dur"]
            moved[kind[1]] += int(grid[1]) * BYTES_OF_A_THREAD_BLOCK
    for kind, microseconds in busy.most_common():
        print(f"{kind}: {count[kind]} times, {microseconds / 1e3:.2f} ms, {moved[kind] / microseconds / 1e3:.1f} GB/s")
    print(f"all: {busy.total() / 1e3:.2f} ms")


if __name__ == "__main__":
    main(sys.argv[1])
