"""Shows the order in which XLA would run a psum's two calls and other work on a GPU.

It needs no GPU, but JAX's plugin for CUDA, jaxina-cuda13, and the description of a GPU that XLA writes there with
`--xla_dump_to`:

    JAX_SKIP_CUDA_CONSTRAINTS_CHECK=1 python benchmarks/jax/gpu_schedule.py FOLDER/*.gpu_target_config.pbtxt

Barriers may tie the other work behind the start, and the end behind the other work.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from overlap import between_start_and_done

from jaxina import _public  # noqa: F401 (it registers the two calls)

BARRIERS = {"none": (False, False), "behind start": (True, False), "before done": (False, True), "both": (True, True)}


def program(x: jax.Array, m: jax.Array, behind_start: bool, before_done: bool) -> Any:
    """Starts a sum, multiplies matrices that do not depend on it, and ends it."""
    x, identity = 2 * x, np.int64(7)
    start = jax.ffi.ffi_call("jaxina_all_reduce_start", jax.ShapeDtypeStruct(x.shape, x.dtype))
    groups = {"groups": np.arange(2), "group_size": np.int64(2), "precision": np.array([32, 0, 0, 0])}
    total = start(x, identity=identity, **groups)
    if behind_start:
        m, total = jax.lax.optimization_barrier((m, total))
    for _ in range(4):
        m = jnp.tanh(m @ m)
    if before_done:
        m, total = jax.lax.optimization_barrier((m, total))
    done = jax.ffi.ffi_call(
        "jaxina_all_reduce_done",
        jax.ShapeDtypeStruct(x.shape, x.dtype),
        has_side_effect=True,
        input_output_aliases={0: 0},
    )
    return done(total, x, identity=identity) + 1, m


def main(description: str) -> None:
    gpu = topologies.get_topology_desc(
        platform="cuda", target_config=Path(description).read_text(), topology="1x1x1"
    ).devices
    here = NamedSharding(Mesh(np.array(gpu), ("w",)), P())
    x = jax.ShapeDtypeStruct((1000,), jnp.float32, sharding=here)
    m = jax.ShapeDtypeStruct((1024, 1024), jnp.float32, sharding=here)
    for name, barriers in BARRIERS.items():
        lowered = jax.jit(lambda x, m, barriers=barriers: program(x, m, *barriers)).trace(x, m).lower()
        print(
            f"barriers {name}: {between_start_and_done(lowered.compile().as_text())} operations between start and done"
        )


if __name__ == "__main__":
    main(sys.argv[1])
