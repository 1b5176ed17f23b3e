"""A program that averages gradients with compressors of narrow words. Process 0 writes what came out to a file.

Usage: compressed_program.py FILE SPEC...
"""

import pickle
import sys

import jax
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import jaxina
from jaxina import compressors

SIZES = (5000, 300, 1, 4096)
STEPS = 3
POISONED = 1  # the step in which gradients are not finite


def gradients(workers: int, step: int) -> list[np.ndarray]:
    """For each size float32[workers, size], with heavy tails, and in one step a NaN and an infinity in a leaf each."""
    random = np.random.default_rng(step)
    arrays = [random.standard_t(2, (workers, size)).astype(np.float32) for size in SIZES]
    if step == POISONED:
        arrays[1][workers - 1, 7] = np.nan
        arrays[2][0, 0] = -np.inf
    return arrays


def key() -> jax.Array:
    return jax.random.key(11)


def main() -> None:
    job = jaxina.init()
    mesh = jax.make_mesh((jax.device_count(),), ("data",))
    sharding = NamedSharding(mesh, P("data"))

    def place(array: np.ndarray) -> jax.Array:
        return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])

    results = {}
    for spec in sys.argv[2:]:
        compressor = compressors.get(spec)

        def step(arrays, leaves, number, compressor=compressor):
            state = {"key": key(), "step": number, "leaves": jax.tree.map(lambda x: x[0], leaves)}
            mean, state = compressor.update([array[0] for array in arrays], state, "data")
            return mean, jax.tree.map(lambda x: x[None], state["leaves"])

        specs = (P("data"), P("data"), P())
        compiled = jax.jit(jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=(P(), P("data"))))
        first = compressor.init([array[0] for array in gradients(1, 0)], key())["leaves"]
        leaves = jax.tree.map(lambda leaf: place(np.zeros((jax.device_count(), *leaf.shape), leaf.dtype)), first)
        before = job.statistics()
        means = []
        for number in range(STEPS):
            arrays = [place(array) for array in gradients(jax.device_count(), number)]
            mean, leaves = compiled(arrays, leaves, np.int32(number))
            means.append([np.asarray(leaf.addressable_data(0)) for leaf in mean])
        after = job.statistics()
        memories = [np.asarray(leaf.addressable_data(0))[0] for leaf in leaves.get("memory", [])]
        sent = {bits: after[f"bytes_of_{bits}_bits"] - before[f"bytes_of_{bits}_bits"] for bits in (8, 16, 32)}
        sent["again"] = after["retransmissions"] - before["retransmissions"]
        results[spec] = means, memories, sent
    if job.process == 0:
        with open(sys.argv[1], "wb") as file:
            pickle.dump(results, file)


if __name__ == "__main__":
    main()
