"""The program whose sums are hashed, its inputs, and what the specification says that its sums are.

The inputs follow from SplitMix64 by shifts alone, so they are the same bits on every machine and with every version of
NumPy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import numpy.typing as npt
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from jaxina import numerics
from jaxina._tracing_settings import SMALLEST
from jaxina.certificate.combinations import DEVICES, ORDERS

Arrays = list[npt.NDArray[Any]]

_SPREAD = 24  # binary orders of magnitude between the numbers of a block


def inputs() -> Arrays:
    """The arrays to sum: one row per device. They have all kinds of types, and values that are not finite."""
    special = _floats(1, 5000)
    special[0, 7], special[1, 7], special[2, 300], special[3, 301] = np.inf, -np.inf, np.nan, -np.inf
    special[:, 512:768] = 0
    return [
        _floats(0, 20011),
        special,
        _floats(2, 37),
        _floats(3, 4999).astype(ml_dtypes.bfloat16),
        (_floats(4, 4500) * np.float32(2.0**-8)).astype(np.float16),
        _floats(5, 8400).view(np.complex64),
        _words(6, 1000).view(np.int32),
    ]


def _words(number: int, elements: int) -> npt.NDArray[np.uint32]:
    return numerics.random_words(number, DEVICES * elements).reshape(DEVICES, elements)


def _floats(number: int, elements: int) -> npt.NDArray[np.float32]:
    """Numbers of both signs, from 2^-15 to below 2^9. The large ones are rare, as in gradients."""
    words = _words(number, elements)
    drawn = _words(number + 100, elements)
    below = np.minimum(drawn % _SPREAD, (drawn >> np.uint32(8)) % _SPREAD)
    exponent = np.uint32(127 - 15) + below.astype(np.uint32)
    bits = (words & np.uint32(0x807FFFFF)) | (exponent << np.uint32(23))
    return bits.view(np.float32)


def reference(bits: int, devices_per_process: int) -> str:
    """The hash of what `jaxina.numerics` says that the sums are.

    Args:
      bits: of a word: 8, 16 or 32.
      devices_per_process: of the layout. It matters to narrow words only.
    """

    def total(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        width = bits if rows.shape[1] >= SMALLEST else 32
        return numerics.all_reduce_reference(list(rows), bits=width, devices_per_worker=devices_per_process)

    sums = []
    for array in inputs():
        if array.dtype == np.complex64:
            sums.append(total(array.view(np.float32)).view(np.complex64))
        elif array.dtype == np.int32:
            sums.append(total(array))
        else:
            sums.append(total(array.astype(np.float32)).astype(array.dtype))
    return hashed(sums)


def hashed(sums: Sequence[npt.NDArray[Any]]) -> str:
    """The SHA-256 of the arrays' types, shapes and bits."""
    digest = hashlib.sha256()
    for array in sums:
        digest.update(f"{array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


class Program:
    """The program, and its inputs on the devices of all processes."""

    def __init__(self) -> None:
        mesh = Mesh(np.array(jax.devices()), ("w",))
        spread = NamedSharding(mesh, P("w"))

        def placed(x: npt.NDArray[Any]) -> jax.Array:
            return jax.make_array_from_callback(x.shape, spread, lambda index: jnp.asarray(x[index]))

        self._operands = {name: [placed(x[list(order)]) for x in inputs()] for name, order in ORDERS.items()}
        self._sum = jax.jit(jax.shard_map(lambda xs: jax.lax.psum(xs, "w"), mesh=mesh, in_specs=P("w"), out_specs=P()))

    def run(self, order: str) -> list[Arrays]:
        """Sums the inputs in one of the `ORDERS`. Returns each local device's results, in the order of the devices."""
        results = jax.block_until_ready(self._sum(self._operands[order]))
        local = [sorted(result.addressable_shards, key=lambda shard: shard.device.id) for result in results]
        return [[np.asarray(shard.data)[0] for shard in of_device] for of_device in zip(*local, strict=True)]
