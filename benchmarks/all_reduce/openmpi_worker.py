"""One rank of an all-reduce by Open MPI, of float32 in NumPy buffers that are used again for every call.

    mpirun ... python openmpi_worker.py '[BYTES, ...]' ITERATIONS CALLS_BEFORE

Rank 0 prints one JSON line for each size: {"bytes": ..., "times_ms": [...]}. The time of a call is the slowest rank's.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
from mpi4py import MPI

from jaxina.bench.dtypes import TURNS
from jaxina.bench.exact_input import exact_sum, first_difference, rank_input


def main() -> None:
    sizes, iterations, warm_up = json.loads(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    world = MPI.COMM_WORLD
    for size in sizes:
        elements = size // 4
        inputs = [rank_input(elements, world.rank, turn) for turn in range(TURNS)]
        expected = [exact_sum(elements, world.size, turn) for turn in range(TURNS)]
        result = np.empty(elements, np.float32)
        times = np.zeros(iterations)
        for call in range(-warm_up, iterations):
            turn = call % TURNS
            world.Barrier()
            began = time.perf_counter()
            world.Allreduce(inputs[turn], result)
            if call >= 0:
                times[call] = 1e3 * (time.perf_counter() - began)
            wrong = first_difference(result, expected[turn])
            if wrong is not None:
                sys.exit(f"Open MPI: element {wrong} is {result[wrong]}, the sum is {expected[turn][wrong]}")
        slowest = np.empty_like(times)
        world.Reduce(times, slowest, MPI.MAX)
        if world.rank == 0:
            print(json.dumps({"bytes": size, "times_ms": slowest.tolist()}), flush=True)


if __name__ == "__main__":
    main()
