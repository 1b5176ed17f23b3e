"""test_collectives_identity.py runs this in both processes of a job: the same program in both, then different programs.

The different programs have equal shapes.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

import jaxina


def square(x):
    return lax.psum(x * x, "w")


def double(x):
    return lax.psum(x + x, "w")


def main() -> None:
    with jaxina.init():
        mesh = jax.make_mesh((jax.device_count(),), ("w",), axis_types=(AxisType.Auto,))

        def summed(f):
            program = jax.jit(jax.shard_map(f, mesh=mesh, in_specs=P(), out_specs=P(), check_vma=False))
            return program(jnp.arange(8.0)).block_until_ready()

        np.testing.assert_array_equal(np.asarray(summed(square).addressable_data(0)), 2 * np.arange(8.0) ** 2)
        print("the same program: right")
        try:
            with jaxina.errors.typed():
                summed((square, double)[jax.process_index()])
        except jaxina.errors.JaxinaError as error:
            print(f"different programs: {type(error).__name__}")


if __name__ == "__main__":
    main()
