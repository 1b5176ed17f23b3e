"""Measures what each compressor costs: processor time of one core for each element of a worker's gradient, and bytes.

    python -m experiments.compression_cost         # writes results/compression_cost.json

The cost is what one worker does in a step: all of `Compressor.update` for its own gradient and, for compressors that
gather, decoding the other workers' payloads. The gradient is one matrix of normally distributed elements. It has three
sizes, since an element costs more in an array that no cache holds. The bytes are counted in a step of all workers, with
the largest matrix. What PowerSGD and Top-k send for an element depends on the matrix.

What jaxina's native codec encodes and decodes itself, in a job, is timed as such: psums of two devices of this process.
Such a sum stays in the process, so nothing is sent. Its time holds the adding, too. `int32` is then a psum of float32,
which has its bits. The costs of the same compressors in JAX, for those who simulate them, are beside.

Freed memory is kept, as in the workers of `jaxina run` (docs/performance.md, "Memory"). The largest size is measured
with malloc as it comes, too. An array of more than 32 MiB then has new pages in every step.

For comparison, the study also measures for each workload the time to differentiate a worker's share of the batch. It
measures processor time, not wall-clock time, because a busy machine disturbs processor time less. All repetitions are
recorded. They go round all compressors, so that no compressor has a busy minute alone.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from rich.progress import track

import jaxina
from experiments import documents, grid, workloads
from experiments.allocator import like_a_worker
from experiments.paper import COUSINS
from experiments.racers import OTHER_MOMENTUM, WORKERS
from experiments.recorded import BASELINE
from experiments.records import RESULTS, ROOT
from jaxina import compressors
from jaxina.bench.stolen_time import StolenTime
from jaxina.cli import worker_memory
from jaxina.compressors import GATHER, Compressor, Context

FILE = RESULTS / "compression_cost.json"
REPETITIONS = 15
SHAPES = ((256, 512), (1024, 2048), (4096, 4096))
ALSO = ("randomk:0.01", "natural", "signsgd", "oktopk:0.01")
"""Compressors that no study trains."""

NATIVE = {"int32": BASELINE, "int16": "int16", "int8": "int8", "int8:stochastic": "int8:stochastic"}
"""What jaxina's codec does in a job, and the compressor whose psums show it."""


def chosen() -> dict[str, Compressor]:
    """Returns the compressors that are measured, by their specs."""
    specs = (*grid.Grid.read(grid.DEFAULT).compressors, *OTHER_MOMENTUM, *ALSO)
    return {compressors.spec_of(compressor): compressor for compressor in map(compressors.get, specs)}


def settings() -> dict[str, Any]:
    """Returns what a document of this study is made of."""
    return {
        "workers": WORKERS,
        "memory": "kept",
        "compressors": {spec: compressor.revision for spec, compressor in chosen().items()},
        "native": list(NATIVE),
        "shapes": [list(shape) for shape in SHAPES],
        "revisions": documents.revisions(COUSINS),
    }


def main() -> None:
    like_a_worker()
    if os.environ[worker_memory.VARIABLE] != worker_memory.keeping({})[worker_memory.VARIABLE]:
        raise SystemExit(f"unset {worker_memory.VARIABLE}: it decides what is measured")
    making = documents.Making()
    stolen = StolenTime()
    _have_one_core()
    calls = {name: differentiation(name, WORKERS) for name in track(list(COUSINS), "compiling gradients")}
    document = settings() | {"gradient_ms": spread("gradients", calls, 1.0)} | costs(SHAPES)
    document["malloc_as_it_comes"] = _costs_with_malloc_as_it_comes()
    # The load counts this program, too: with nothing else to do it is 1.
    document |= {"load_average": os.getloadavg()[0], "stolen": stolen.share()}
    document["traffic"] = {
        spec: traffic(compressor, _gradient(SHAPES[-1])) for spec, compressor in track(chosen().items(), "bytes")
    }
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(json.dumps(document | making.ended(), indent=1) + "\n")
    for kind, words in (("compression_ns", ""), ("native_ns", ", by jaxina's codec, with the sum")):
        for spec, sizes in document[kind].items():
            shown = ", ".join(f"{ns['median']:.1f} ({ns['low']:.1f} to {ns['high']:.1f})" for ns in sizes.values())
            print(f"{spec}{words}: {shown} ns an element")
    print(FILE)


def _have_one_core() -> None:
    """Makes this process like a worker that has one core for this work.

    JAX reads the variable when its first device is used.
    """
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false"
    jax.config.update("jax_num_cpu_devices", 2)  # those of `native`
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])


def costs(shapes: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """Returns the "compression_ns" and "native_ns" of gradients of these shapes: by spec and number of elements."""
    by_spec = chosen()
    compression_ns: dict[str, Any] = {spec: {} for spec in by_spec}
    native_ns: dict[str, Any] = {name: {} for name in NATIVE}
    job = jaxina.init(aggregator="embedded")
    for shape in shapes:
        gradient, elements = _gradient(shape), math.prod(shape)
        compressions = {spec: compression(compressor, gradient, WORKERS) for spec, compressor in by_spec.items()}
        for spec, times in spread(f"{elements:,} elements", compressions, 1e6 / elements).items():
            compression_ns[spec][str(elements)] = times
        sums = {name: native(compressors.get(spec), gradient) for name, spec in NATIVE.items()}
        for name, times in spread(f"{elements:,} elements, jaxina", sums, 1e6 / (2 * elements)).items():
            native_ns[name][str(elements)] = times
    assert job.statistics()["collectives"] >= len(shapes) * len(NATIVE) * REPETITIONS, "jaxina has carried the psums"
    jaxina.shutdown()
    return {"compression_ns": compression_ns, "native_ns": native_ns}


def _costs_with_malloc_as_it_comes() -> dict[str, Any]:
    """Returns the `costs` of the largest gradient in a process that does not keep freed memory."""
    environment = {name: value for name, value in os.environ.items() if name != worker_memory.VARIABLE}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "costs.json"
        code = f"from experiments import compression_cost; compression_cost.write_costs_of_the_largest({str(file)!r})"
        subprocess.run([sys.executable, "-c", code], env=environment, cwd=ROOT, check=True)
        return json.loads(file.read_text())


def write_costs_of_the_largest(file: str) -> None:
    _have_one_core()
    Path(file).write_text(json.dumps(costs(SHAPES[-1:])))


def _gradient(shape: tuple[int, int]) -> jax.Array:
    return jnp.asarray(np.random.default_rng(2021).normal(size=shape), jnp.float32)


def traffic(compressor: Compressor, gradient: jax.Array) -> dict[str, float]:
    """Returns the bytes that a worker sends and receives in a step, for each element of the gradient.

    For `Traffic.sent` and `Traffic.received` see `jaxina.compressors.measure`.
    """
    counted, _ = compressors.measure(compressor, [gradient] * WORKERS, jax.random.key(0))
    return {"sent": counted.sent / gradient.size, "received": counted.received / gradient.size}


def spread(what: str, calls: Mapping[str, Callable[[], Any]], unit: float) -> dict[str, dict[str, Any]]:
    """Times all calls in turn. A first call compiles and is not counted.

    Args:
      what: is timed, for the progress bars.
      calls: by name.
      unit: of the times.

    Returns:
      By name, in milliseconds of processor time times `unit`: the median, the tenth and the ninetieth percentile as
      "low" and "high", and all repetitions.
    """
    for call in track(calls.values(), f"{what}, first calls", total=len(calls)):
        jax.block_until_ready(call())
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in track(range(REPETITIONS), f"{what}, repetitions"):
        for name, call in calls.items():
            start = time.process_time()
            jax.block_until_ready(call())
            times[name].append(float(f"{unit * 1e3 * (time.process_time() - start):.4g}"))
    return {
        name: {
            "median": float(np.median(values)),
            "low": float(np.quantile(values, 0.1)),
            "high": float(np.quantile(values, 0.9)),
            "repetitions": values,
        }
        for name, values in times.items()
    }


def differentiation(name: str, workers: int) -> Callable[[], Any]:
    """Returns what differentiates one worker's share of a batch."""
    workload = workloads.get(name)
    graph, params = nnx.split(workload.network(nnx.Rngs(0)))
    share = {key: array[: workload.batch_size // workers] for key, array in next(workload.batches(0)).items()}
    share = jax.device_put(share)
    differentiate = jax.jit(jax.grad(lambda p, batch: workload.loss(nnx.merge(graph, p), batch)))
    return lambda: differentiate(params, share)


def compression(compressor: Compressor, gradient: Any, workers: int) -> Callable[[], Any]:
    """Returns what one worker does for compression in one step."""
    state = compressor.init(gradient, jax.random.key(0))
    update = jax.jit(lambda g, s: compressor.update(g, s))
    if compressor.kind != GATHER:
        return lambda: update(gradient, state)
    payloads = jax.jit(lambda g: encoded(compressor, g, workers))(gradient)
    decode = jax.jit(lambda p: decoded(compressor, p, gradient, workers))
    return lambda: (update(gradient, state), decode(payloads))


def native(compressor: Compressor, gradient: Any) -> Callable[[], Any]:
    """Returns what both devices of this process do for the mean of their gradients."""
    mesh = jax.make_mesh((2,), ("workers",))
    split = NamedSharding(mesh, P("workers"))
    two = jax.tree.map(lambda leaf: jax.device_put(jnp.stack([leaf, -2 * leaf]), split), gradient)

    def mean(g: Any, key: jax.Array) -> Any:
        ours = jax.tree.map(lambda leaf: leaf[0], g)
        return compressor.update(ours, compressor.init(ours, key), "workers")[0]

    sharded = jax.shard_map(mean, mesh=mesh, in_specs=(P("workers"), P()), out_specs=P(), check_vma=False)
    compiled, key = jax.jit(sharded), jax.random.key(0)
    return lambda: compiled(two, key)


def encoded(compressor: Compressor, gradient: Any, workers: int) -> list[Any]:
    """Returns the payloads of the other workers, leaf by leaf. The leading axis is the worker."""

    def leaf(x: jax.Array, worker: jax.Array) -> Any:
        state = compressor.init_leaf(x, jax.random.key(0)) | {"memory": jnp.zeros(x.shape)}
        return compressor.encode(x, state, _context(compressor, x, workers, worker))[0]

    of_all = jax.vmap(leaf, in_axes=(None, 0))
    return [of_all(x, jnp.arange(1, workers)) for x in jax.tree.leaves(gradient)]


def decoded(compressor: Compressor, payloads: list[Any], gradient: Any, workers: int) -> list[jax.Array]:
    def leaf(payload: Any, x: jax.Array) -> jax.Array:
        return compressor.decode_all(payload, _context(compressor, x, workers, 0))

    return [leaf(payload, x) for payload, x in zip(payloads, jax.tree.leaves(gradient), strict=True)]


def _context(compressor: Compressor, x: jax.Array, workers: int, worker: jax.Array | int) -> Context:
    return Context(x.shape, workers, jax.random.key(1), worker, compressor.propose(x))


if __name__ == "__main__":
    main()
