"""One of the two processes that spike.py starts: sums arrays whose sum is known, and writes what came out."""

import ctypes
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

SIZES = (1 << 10, 1 << 20, 64 << 20)  # bytes
PR_SET_PDEATHSIG = 1


class Report:
    """A file that is complete at any time, because spike.py may have to kill this process."""

    def __init__(self, path: Path):
        self.path = path
        self.content: dict[str, Any] = {"sums": []}

    def write(self, **fields: Any) -> None:
        self.content.update(fields)
        draft = self.path.with_suffix(".draft")
        draft.write_text(json.dumps(self.content))
        draft.replace(self.path)


def wait_for_turn(report: Report) -> None:
    """Imports take longest, so all processes do them at once. Then the variants take turns on the GPU."""
    report.write(ready=True)
    if not sys.stdin.readline():
        sys.exit("spike.py is gone")


def with_torch(rank: int, store: Path, report: Report) -> None:
    from datetime import timedelta

    import torch
    import torch.distributed as dist

    device = torch.device("cuda:0")
    torch.zeros(1, device=device)
    report.write(library=f"torch {torch.__version__}", gpu=torch.cuda.get_device_name(0))
    wait_for_turn(report)
    dist.init_process_group(
        "nccl", init_method=f"file://{store}", rank=rank, world_size=2, timeout=timedelta(seconds=60), device_id=device
    )
    for size in SIZES:
        base = (torch.arange(size // 4, device=device) % 1000).float()
        seconds = 0.0
        right = True
        for _ in range(2):  # the second is timed: the first connects
            values = base + rank * 0.5
            torch.cuda.synchronize()
            begin = time.perf_counter()
            dist.all_reduce(values)
            torch.cuda.synchronize()
            seconds = time.perf_counter() - begin
            right = right and torch.equal(values, base * 2 + 0.5)
        report.content["sums"].append({"bytes": size, "right": right, "seconds": seconds})
        report.write()
    dist.destroy_process_group()


def with_jax(rank: int, port: int, report: Report) -> None:
    """A program without shard_map: XLA itself finds that it needs an all-reduce."""
    import jax
    import numpy as np
    from jax.sharding import AxisType, NamedSharding
    from jax.sharding import PartitionSpec as P

    jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=2, process_id=rank, local_device_ids=[0])
    mesh = jax.make_mesh((2,), ("workers",), axis_types=(AxisType.Auto,))
    report.write(library=f"jax {jax.__version__}", gpu=jax.local_devices()[0].device_kind)
    sum_rows = jax.jit(lambda rows: rows.sum(axis=0), out_shardings=NamedSharding(mesh, P()))
    wait_for_turn(report)
    for size in SIZES:
        base = (np.arange(size // 4) % 1000).astype(np.float32)
        rows = jax.make_array_from_process_local_data(NamedSharding(mesh, P("workers")), (base + rank * 0.5)[None])
        seconds = 0.0
        right = True
        for _ in range(2):
            begin = time.perf_counter()
            total = sum_rows(rows).block_until_ready()
            seconds = time.perf_counter() - begin
            right = right and np.array_equal(np.asarray(total.addressable_data(0)), base * 2 + np.float32(0.5))
        report.content["sums"].append({"bytes": size, "right": right, "seconds": seconds})
        report.write()
    jax.distributed.shutdown()


def main(framework: str, rank: int, meeting: str, report_path: str) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    report = Report(Path(report_path))
    try:
        if framework == "torch":
            with_torch(rank, Path(meeting), report)
        else:
            with_jax(rank, int(meeting), report)
    except BaseException as error:
        report.write(error=f"{type(error).__name__}: {error}")
        raise
    report.write(finished=True)
    sys.stdout.flush()
    os._exit(0)  # nothing that runs at exit may hang


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4])
