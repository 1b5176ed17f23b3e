"""Sums random arrays over all processes of a job, and prints the hash of the sums. test_p4_bridge.py runs it."""

from __future__ import annotations

import hashlib

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxina

SHAPES = (("float32", 1000), ("float32", 7), ("int32", 130))


def main() -> None:
    digest = hashlib.sha256()
    with jaxina.init():
        mesh = Mesh(jax.devices(), ("w",))
        total = jax.jit(
            jax.shard_map(lambda x: jax.lax.psum(x, "w"), mesh=mesh, in_specs=P("w"), out_specs=P()),
        )
        for dtype, size in SHAPES:
            random = np.random.default_rng(size)
            x = (1000 * random.standard_normal((len(jax.devices()), size))).astype(dtype)
            placed = jax.make_array_from_callback(x.shape, NamedSharding(mesh, P("w")), lambda at, x=x: x[at])
            summed = np.asarray(total(placed).addressable_shards[0].data)
            np.testing.assert_allclose(summed[0], x.sum(0, dtype=dtype), rtol=1e-3, atol=1)
            digest.update(summed.tobytes())
    print(f"sums: {digest.hexdigest()}")


if __name__ == "__main__":
    main()
