"""Sums of all types, and of several groups at once. test_collectives_direct.py runs it in every process of a job.

It prints "N sums are right". Floats are compared with the reference numerics bit for bit, the rest with exact sums.
"""

from __future__ import annotations

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxina
from jaxina.numerics import all_reduce_reference

INTEGERS = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
OTHERS = ("bfloat16", "float16", "float64", "complex64", "complex128")
ELEMENTS = 20_001


def operands(dtype: str, count: int) -> np.ndarray:
    """An operand per device. Their sums are exact in the type, except those of float32."""
    random = np.random.default_rng(len(dtype))
    if dtype == "float32":
        return random.standard_normal((count, ELEMENTS)).astype(np.float32)
    if dtype in INTEGERS:
        bounds = np.iinfo(dtype)
        return random.integers(bounds.min, bounds.max, (count, ELEMENTS), dtype, endpoint=True)
    small = random.integers(-8, 9, (2, count, ELEMENTS)).astype(np.float64)
    return (small[0] + 1j * small[1] if "complex" in dtype else small[0]).astype(jax.numpy.dtype(dtype))


def expected(x: np.ndarray) -> np.ndarray:
    if x.dtype == np.float32 and len(x) > 1:  # JAX removes a sum over one device
        return all_reduce_reference(list(x))
    return x.sum(0, dtype=x.dtype)


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    jaxina.init()
    devices = np.array(jax.devices())
    # For four processes a mesh of 2 x 2, so that a program has sums of five groups.
    mesh = Mesh(devices.reshape((2, 2) if devices.size == 4 else (devices.size, 1)), ("a", "b"))
    rows, columns = mesh.devices.shape

    def sums(x: jax.Array) -> tuple[jax.Array, ...]:
        return jax.lax.psum(x, ("a", "b")), jax.lax.psum(x, "a"), jax.lax.psum(x, "b")

    step = jax.jit(jax.shard_map(sums, mesh=mesh, in_specs=P(("a", "b")), out_specs=(P(), P("b"), P("a"))))
    right = 0
    for dtype in (*INTEGERS, *OTHERS, "float32"):
        x = operands(dtype, devices.size)
        sharding = NamedSharding(mesh, P(("a", "b")))
        mine = jax.make_array_from_callback(x.shape, sharding, lambda index, x=x: x[index])
        with jaxina.errors.typed():
            got = jax.block_until_ready(step(mine))
        place = jax.process_index()
        of_place = x.reshape(rows, columns, -1)
        for sum_of, terms in zip(got, (x, of_place[:, place % columns], of_place[place // columns]), strict=True):
            one = np.asarray(sum_of.addressable_data(0))[0]
            assert one.dtype == x.dtype and one.tobytes() == expected(terms).tobytes(), (dtype, terms.shape)
            right += 1
    print(f"{right} sums are right", flush=True)


if __name__ == "__main__":
    main()
