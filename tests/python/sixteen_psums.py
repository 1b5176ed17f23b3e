"""test_collectives_processes.py runs this in every process of a job: sixteen independent psums, many times.

In process 0, each sum needs the one before, so its data forces the program's order. The other processes must keep the
same order without that. If all processes ran the same program, they could agree on an order by chance.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxina
from jaxina import _module

PSUMS, ROWS = 16, 64


def worked(operands: list[Any]) -> Iterator[Any]:
    """Sorts the first operand most often and the last one once. So the operand of the first sum is ready last."""
    for i, operand in enumerate(operands):
        x = operand
        for _ in range(PSUMS - 1 - i):
            x = -jnp.sort(-jnp.sort(x, axis=0), axis=0)
        yield jnp.sort(x, axis=0)


def independent(operands: list[Any]) -> list[Any]:
    return [lax.psum(x, "w") for x in worked(operands)]


def dependent(operands: list[Any]) -> list[Any]:
    sums: list[Any] = []
    nothing = jnp.float32(0)
    for x in worked(operands):
        sums.append(lax.psum(x + nothing, "w"))
        nothing = sums[-1][0, 0] * 0
    return sums


def main(local_devices: int, repetitions: int) -> None:
    jax.config.update("jax_num_cpu_devices", local_devices)
    with jaxina.init(), jaxina.collectives(bucket_bytes=0):
        devices = jax.devices()
        mesh = jax.make_mesh((len(devices),), ("w",), axis_types=(AxisType.Auto,))
        spread = NamedSharding(mesh, P("w"))
        rng = np.random.default_rng(0)  # the same in every process
        whole = [rng.integers(0, 1000, (len(devices), ROWS, 64 + 8 * i)).astype(np.float32) for i in range(PSUMS)]
        operands = [
            jax.make_array_from_callback(
                (len(devices) * ROWS, x.shape[2]), spread, lambda i, x=x: x.reshape(-1, x.shape[2])[i]
            )
            for x in whole
        ]
        body = dependent if jax.process_index() == 0 else independent
        # A psum's identity comes from its program's text and its place. Process 0 runs another program, so the digest
        # of the text must be made equal.
        _module.digest = lambda module: "0" * 32
        program = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P("w"), out_specs=P(), check_vma=False))
        for _ in range(repetitions):
            for got, x in zip(program(operands), whole, strict=True):
                np.testing.assert_array_equal(np.asarray(got.addressable_data(0)), np.sort(x, axis=1).sum(0))
    print(f"{repetitions} x {PSUMS} sums over {len(devices)} devices are right")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
