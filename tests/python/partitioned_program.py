"""test_launcher_catch_all.py runs this in every process of a job: a program that uses nothing of jaxina but init()."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxina


def arrays(mesh: jax.sharding.Mesh, values: np.ndarray, spec: P) -> jax.Array:
    return jax.make_array_from_callback(values.shape, NamedSharding(mesh, spec), lambda index: values[index])


# Functions that move data between devices, by collective permutes and all-to-alls.
RESHARDS = {
    "reshard": lambda x: x + 0,
    "transpose": lambda x: x.T,
    "roll": lambda x: jnp.roll(x, 3, 0),
    "flip": lambda x: x[::-1],
    "slice and concatenate": lambda x: jnp.concatenate([x[5:], x[:5]]),
    "sort": lambda x: jnp.sort(-x, axis=0),
    "padded convolution": lambda x: x + jnp.pad(x, ((1, 0), (0, 0)))[:-1] + jnp.pad(x, ((0, 1), (0, 0)))[1:],
}


def carried() -> int:
    return jaxina.job.current().statistics()["collectives"]


def main() -> None:
    with jaxina.init():
        n = jax.device_count()
        mesh = jax.make_mesh((n,), ("w",), axis_types=(AxisType.Auto,))
        x = np.arange(8 * n * 4, dtype=np.float32).reshape(8 * n, 4)
        weights = np.ones((4, 3), np.float32)

        @jax.jit
        def gradient(w, x):
            return jax.grad(lambda w: jnp.sum(jnp.sin(x @ w)))(w)

        before = carried()
        got = gradient(arrays(mesh, weights, P()), arrays(mesh, x, P("w")))
        with jax.default_device(jax.local_devices()[0]):
            want = gradient(weights, x)
        np.testing.assert_allclose(np.asarray(got.addressable_data(0)), np.asarray(want), rtol=1e-5)
        print("gradient:", "right,", carried() - before > 0 and "carried")

        sharded = arrays(mesh, x, P("w"))
        everything = NamedSharding(mesh, P())
        for name, f in {
            "sum": jnp.sum,
            "max": jnp.max,
            "max with a NaN": lambda x: jnp.max(jnp.where(x == 5, jnp.nan, x)),
            "sum of complex": lambda x: jnp.sum(x + 1j * x),
            "min of int16": lambda x: jnp.min(x.astype(jnp.int16)),
            "product": lambda x: jnp.prod(1 + x / 1024),
            "gather": lambda x: lax.with_sharding_constraint(x + 1, everything),
        }.items():
            got = jax.jit(f, out_shardings=everything)(sharded)
            with jax.default_device(jax.local_devices()[0]):
                want = x + 1 if name == "gather" else np.asarray(f(x))
                np.testing.assert_allclose(np.asarray(got.addressable_data(0)), want, rtol=1e-5)
            print(f"{name}: right")

        def scattered(x):
            return lax.psum_scatter(x, "w", tiled=True)

        program = jax.jit(jax.shard_map(scattered, mesh=mesh, in_specs=P(None, "w"), out_specs=P("w")))
        wide = np.arange(n * 2 * n, dtype=np.int32).reshape(n, 2 * n)
        got = program(arrays(mesh, wide, P(None, "w")))
        rank = jax.process_index()
        blocks = wide.reshape(n, n, 2).sum(1)
        np.testing.assert_array_equal(np.asarray(got.addressable_data(0)), blocks[rank : rank + 1])
        print("scatter: right")

        if n == 4:
            grid = jax.make_mesh((2, 2), ("a", "b"), axis_types=(AxisType.Auto,) * 2)
            rows = np.arange(16, dtype=np.float32).reshape(4, 4)
            got = jax.jit(lambda x: x.sum(0), out_shardings=NamedSharding(grid, P("b")))(
                arrays(grid, rows, P("a", "b"))
            )
            column = rank % 2
            np.testing.assert_array_equal(np.asarray(got.addressable_data(0)), rows.sum(0)[2 * column : 2 * column + 2])
            print("two axes: right")

        ring = [(i, (i + 1) % n) for i in range(n)]
        shifted = jax.jit(
            jax.shard_map(lambda x: lax.ppermute(x, "w", ring), mesh=mesh, in_specs=P("w"), out_specs=P("w"))
        )
        got = shifted(arrays(mesh, np.arange(n, dtype=np.float32), P("w")))
        assert np.asarray(got.addressable_data(0)) == (rank - 1) % n
        print("permute: right")

        for name, f in RESHARDS.items():
            for axis in range(2):
                spec = P("w") if axis == 0 else P(None, "w")
                whole = np.arange(4 * n * 4 * n, dtype=np.float32).reshape(4 * n, 4 * n)
                laid_out = NamedSharding(mesh, spec)
                got = jax.jit(f, out_shardings=laid_out)(arrays(mesh, whole, P("w")))
                want = np.asarray(f(whole))
                np.testing.assert_array_equal(
                    np.asarray(got.addressable_data(0)), want[got.addressable_shards[0].index]
                )
            print(f"{name}: right")


if __name__ == "__main__":
    main()
