"""Shows the order in which XLA would run a psum's two calls and other work on a GPU.

It needs no GPU, but JAX's plugin for CUDA, jaxina-cuda13, and the description of a GPU that XLA writes there with
`--xla_dump_to`:

    JAX_SKIP_CUDA_CONSTRAINTS_CHECK=1 python benchmarks/jax/gpu_schedule.py FOLDER/*.gpu_target_config.pbtxt

Barriers may tie the other work behind the start, and the end behind the other work. The last row has no barriers, but
both calls on a stream of their own (`jax.experimental.compute_on`). That becomes one asynchronous operation, which XLA
may begin early and wait for late.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import topologies
from jax.experimental.compute_on import compute_on
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from overlap import between_start_and_done, operations_between

from jaxina import _public  # noqa: F401 (it registers the two calls)

IDENTITY = np.int64(7)  # of the sum
BARRIERS = {"none": (False, False), "behind start": (True, False), "before done": (False, True), "both": (True, True)}


def start(x: jax.Array) -> jax.Array:
    call = jax.ffi.ffi_call("jaxina_all_reduce_start", jax.ShapeDtypeStruct(x.shape, x.dtype))
    groups = {"groups": np.arange(2), "group_size": np.int64(2), "precision": np.array([32, 0, 0, 0])}
    return call(x, identity=IDENTITY, **groups)


def done(total: jax.Array, x: jax.Array) -> jax.Array:
    call = jax.ffi.ffi_call(
        "jaxina_all_reduce_done",
        jax.ShapeDtypeStruct(x.shape, x.dtype),
        has_side_effect=True,
        input_output_aliases={0: 0},
    )
    return call(total, x, identity=IDENTITY)


def products(m: jax.Array) -> jax.Array:
    for _ in range(4):
        m = jnp.tanh(m @ m)
    return m


def with_barriers(x: jax.Array, m: jax.Array, behind_start: bool, before_done: bool) -> Any:
    """Starts a sum, multiplies matrices that do not depend on it, and ends it."""
    x = 2 * x
    total = start(x)
    if behind_start:
        m, total = jax.lax.optimization_barrier((m, total))
    m = products(m)
    if before_done:
        m, total = jax.lax.optimization_barrier((m, total))
    return done(total, x) + 1, m


def on_a_stream(x: jax.Array, m: jax.Array) -> Any:
    """The same with both calls on a stream of their own."""

    def both(x: jax.Array) -> jax.Array:
        return done(start(x), x)

    total = compute_on(both, compute_type="gpu_stream:1", out_memory_spaces=jax.memory.Space.Device)(2 * x)
    return total + 1, products(m)


def main(description: str) -> None:
    gpu = topologies.get_topology_desc(
        platform="cuda", target_config=Path(description).read_text(), topology="1x1x1"
    ).devices
    here = NamedSharding(Mesh(np.array(gpu), ("w",)), P())
    x = jax.ShapeDtypeStruct((1000,), jnp.float32, sharding=here)
    m = jax.ShapeDtypeStruct((1024, 1024), jnp.float32, sharding=here)

    def compiled(program: Callable[..., Any]) -> str:
        return jax.jit(program).trace(x, m).lower().compile().as_text()

    for name, barriers in BARRIERS.items():
        text = compiled(lambda x, m, barriers=barriers: with_barriers(x, m, *barriers))
        print(f"barriers {name}: {between_start_and_done(text)} operations between start and done")
    between = operations_between(compiled(on_a_stream), " call-start(", " call-done(")
    print(f"a stream of their own: {between} operations between its start and its end")


if __name__ == "__main__":
    main(sys.argv[1])
