"""A program whose large sums have words of 8 or 16 bits. Process 0 writes what it summed, and what came out, to a file.

Usage: narrow_program.py FILE
"""

import pickle
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

import jaxina

SIZES = (5000, 4096, 4095, 1)  # the last two are too small for narrow words
CASES = [(bits, rounding) for bits in (8, 16) for rounding in ("nearest", "stochastic")]
SEED = 2**63 + 11


def inputs(devices: int) -> list[np.ndarray]:
    """For each size float32[devices, size]: heavy tails, zeros, and some values that are not finite."""
    random = np.random.default_rng(5)
    arrays = [random.standard_t(2, (devices, size)).astype(np.float32) for size in SIZES]
    arrays[0][0, 7] = np.inf
    arrays[0][-1, 300] = np.nan
    arrays[0][:, 512:768] = 0
    return arrays


def main() -> None:
    job = jaxina.init()
    mesh = jax.make_mesh((jax.device_count(),), ("data",))
    sharding = NamedSharding(mesh, PartitionSpec("data"))
    arrays = inputs(jax.device_count())
    placed = [jax.make_array_from_callback(a.shape, sharding, lambda i, a=a: a[i]) for a in arrays]
    counts = jax.make_array_from_callback(
        (jax.device_count(), 6000), sharding, lambda i: np.arange(6000, dtype=np.int32)[None]
    )

    def sums(xs, integers):
        return jax.lax.psum((xs, integers, [x.astype(jnp.bfloat16) for x in xs]), "data")

    summed = jax.jit(jax.shard_map(sums, mesh=mesh, in_specs=PartitionSpec("data"), out_specs=PartitionSpec()))
    results = {}
    for bits, rounding in CASES:
        with jaxina.collectives(bits=bits, rounding=rounding, seed=SEED):
            out = summed(placed, counts)
        results[bits, rounding] = jax.tree.map(lambda x: np.asarray(x.addressable_data(0))[0], out)
    if job.process == 0:
        with open(sys.argv[1], "wb") as file:
            pickle.dump(results, file)


if __name__ == "__main__":
    main()
