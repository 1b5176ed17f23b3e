"""One worker of ``jaxina bench``.

It times psum through jaxina and through XLA's gloo by turns, in the same process and run, and checks every result:
`jaxina.bench.ways` says against what.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxina
from jaxina.bench.dtypes import TURNS
from jaxina.bench.exact_input import rank_input
from jaxina.bench.sizes import size_text
from jaxina.bench.stolen_time import StolenTime
from jaxina.bench.ways import Way, ways_of

# Calls are timed in rows of at most _MAX_ROW, as a program makes them. A row sums at most _ROW_BYTES, to save memory.
_ROW_BYTES = 4 << 20
_MAX_ROW = 10
# If -i is not given, there are as many iterations as fit this time, within these bounds.
_TARGET_SECONDS = 4.0
_MIN_ITERATIONS, _MAX_ITERATIONS = 20, 200


@dataclasses.dataclass(frozen=True)
class Options:
    """What ``jaxina bench`` passes to its workers.

    Attributes:
      sizes: the sizes to sum, in bytes.
      iterations: timed calls per size; None lets the workers choose.
      warmup: calls before these, which are not timed.
      versus_gloo: whether to time XLA's gloo too; for narrow words with bfloat16, too.
      bits: widths of words to time: `jaxina.collectives`.
      rounding: of 8 and 16 bits.
      dtype: the type of the elements.
      output: the file to which rank 0 appends one JSON line per size.
    """

    sizes: list[int]
    iterations: int | None
    warmup: int
    versus_gloo: bool
    bits: list[int]
    rounding: str
    dtype: str
    output: str


class WrongResultError(Exception):
    """A sum is wrong."""


class Bench:
    """The arrays, the program and the checks for one size."""

    def __init__(self, mesh: Mesh, elements: int, rank: int, ranks: int, ways: list[Way]):
        self._elements, self._rank, self._ranks = elements, rank, ranks
        sharding = NamedSharding(mesh, P("workers"))
        dtypes = {way.dtype for way in ways}
        self._inputs = {d: [self._global(sharding, turn, d) for turn in range(TURNS)] for d in dtypes}
        self._reduce = jax.jit(
            jax.shard_map(
                lambda x: jax.lax.psum(x, "workers"),
                mesh=mesh,
                in_specs=P("workers"),
                out_specs=P(),
            )
        )

    def _global(self, sharding: NamedSharding, turn: int, dtype: str) -> jax.Array:
        local = rank_input(self._elements, self._rank, turn, dtype)[None]
        return jax.make_array_from_process_local_data(sharding, local, (self._ranks, self._elements))

    def row(self, way: Way, first_turn: int, length: int) -> list[float]:
        """Runs `length` all-reduces, one after the other. Checks all results, and returns the seconds of each."""
        times, results = [], []
        with way.scope():
            for turn in range(first_turn, first_turn + length):
                x = self._inputs[way.dtype][turn % TURNS]
                began = time.perf_counter()
                result = self._reduce(x)
                result.block_until_ready()
                times.append(time.perf_counter() - began)
                results.append(result)
        for offset, result in enumerate(results):
            self._check(way, first_turn + offset, result)
        return times

    def _check(self, way: Way, turn: int, result: jax.Array) -> None:
        got = np.asarray(result.addressable_data(0))[0]
        wrong = way.first_wrong(got, self._ranks, turn % TURNS)
        if wrong is not None:
            index, right = wrong
            raise WrongResultError(
                f"{way.name}, {self._elements} x {way.dtype}, call {turn}, rank {self._rank}: element "
                f"{index} is {got[index]!r}, {right}"
            )


def measure(options: Options, size: int, mesh: Mesh, job: jaxina.Job) -> dict[str, Any]:
    """Times one size. Returns, for each way to sum, the milliseconds of each call in its slowest process."""
    block = job.configuration.block_size
    ways = ways_of(options.dtype, options.bits, options.rounding, options.versus_gloo, block)
    elements = size // np.dtype(options.dtype).itemsize
    bench = Bench(mesh, elements, job.process, job.processes, ways)
    length = max(1, min(_MAX_ROW, _ROW_BYTES // size))
    warm = {way.name: [bench.row(way, turn, 1)[0] for turn in range(max(1, options.warmup))] for way in ways}
    iterations = options.iterations or _iterations(warm)
    times: dict[str, list[float]] = {way.name: [] for way in ways}
    turn = 0
    while len(times[ways[0].name]) < iterations:
        length = min(length, iterations - len(times[ways[0].name]))
        for way in ways if turn % 2 == 0 else ways[::-1]:
            multihost_utils.sync_global_devices("row")
            times[way.name] += bench.row(way, turn, length)
        turn += 1
    return {name: _slowest(values) for name, values in times.items()}


def _iterations(warm: dict[str, list[float]]) -> int:
    """Chooses how many calls to time. All processes choose the same number."""
    per_call = sum(min(values) for values in warm.values())
    wanted = int(_TARGET_SECONDS / max(per_call, 1e-6))
    agreed = multihost_utils.process_allgather(np.int32(min(wanted, _MAX_ITERATIONS)))
    return max(_MIN_ITERATIONS, int(np.min(agreed)))


def _slowest(times: list[float]) -> list[float]:
    """Each call's time in the slowest process, in milliseconds."""
    everybody = multihost_utils.process_allgather(np.asarray(times, np.float32))
    return [1e3 * float(t) for t in np.max(everybody, axis=0)]


def main() -> None:
    options = Options(**json.loads(sys.argv[1]))
    with jaxina.init(catch_all=False) as job:
        mesh = Mesh(np.array(jax.devices()), ("workers",))
        for size in options.sizes:
            before, stolen = job.statistics(), StolenTime()
            times = measure(options, size, mesh, job)
            after = job.statistics()
            if job.process == 0:
                grown = {name: after[name] - before[name] for name in after}
                line = {"bytes": size, "times_ms": times, "engine": grown, "stolen": stolen.share()}
                with open(options.output, "a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
                medians = ", ".join(f"{n} {np.median(t):.3f} ms" for n, t in times.items())
                print(f"{size_text(size)}: {medians}", flush=True)


if __name__ == "__main__":
    main()
