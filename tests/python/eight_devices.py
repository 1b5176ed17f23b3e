"""Gives the test process eight CPU devices. Import it before any JAX backend starts."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxina

DEVICES = 8
jax.config.update("jax_num_cpu_devices", DEVICES)


def mesh(*sizes: int, names: tuple[str, ...] = ("w",)) -> jax.sharding.Mesh:
    return jax.make_mesh(sizes or (DEVICES,), names, axis_types=(AxisType.Auto,) * len(names))


def sharded(
    f: Callable[..., Any],
    *,
    on: jax.sharding.Mesh | None = None,
    ins: Any = P("w"),
    outs: Any = P(),
    vma: bool = True,
) -> Callable[..., Any]:
    """Returns f under shard_map on every device of the mesh `on`. The default is all eight devices."""
    return jax.shard_map(f, mesh=on or mesh(), in_specs=ins, out_specs=outs, check_vma=vma)


def on_devices(rows: np.ndarray) -> jax.Array:
    """Puts row i of `rows` on device i."""
    return jax.device_put(rows, NamedSharding(mesh(), P("w")))


def carried(f: Callable[[], Any], bucket_bytes: int | None = None) -> tuple[Any, int]:
    """Runs f() with jaxina on. Returns its result, and how many collectives the engine summed on all devices."""
    before = _settled()
    with jaxina.collectives(True, bucket_bytes=bucket_bytes):
        result = jax.block_until_ready(f())
    return result, _settled() - before


def _settled() -> int:
    """Waits until the engine's count no longer changes. (The engine hands out a result first, then counts it.)"""
    count = jaxina.job.current().statistics()["collectives"]
    for _ in range(100):
        time.sleep(0.005)
        now = jaxina.job.current().statistics()["collectives"]
        if now == count:
            return count
        count = now
    raise AssertionError("the engine's counter does not settle")
