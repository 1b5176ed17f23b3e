"""Where jaxina sums float32, small leaves beside large ones keep their bits: each leaf begins a block."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compressor_cases import get
from eight_devices import DEVICES, carried, mesh, on_devices, sharded
from jax.sharding import PartitionSpec as P

from jaxina import compressors
from jaxina.compressors import packing
from jaxina.compressors.messages import Message
from jaxina.compressors.rounding import from_rows, parts_of

SCALES = {"large": (1e10, (40,)), "small": (1e-3, (40,)), "tiny": (1e-9, (5, 3)), "scalar": (1e-20, ())}


def leaves(workers: int = DEVICES) -> dict[str, np.ndarray]:
    """Gradients of all workers, [workers, ...]. Two leaves have the same shape."""
    random = np.random.default_rng(3)
    return {
        name: (scale * random.normal(size=(workers, *shape))).astype(np.float32)
        for name, (scale, shape) in SCALES.items()
    }


def check(means: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """A number is off by less than n words' last units, relative to its own leaf's largest."""
    for name, own in arrays.items():
        exact = own.astype(np.float64).mean(axis=0)
        error = np.abs(np.asarray(means[name]) - exact).max()
        assert error <= 2.0**-24 * np.abs(own).max(), f"{name}: {error} beside {np.abs(own).max()}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scattered(compressors.Compressor):
    """Each worker sums a part, and the parts go to all."""

    promise = compressors.Promise(title="scattered", paper="-", unbiased=True, error_feedback="needless", note="-")
    kind = compressors.REDUCE_SCATTER

    def reduce(self, x, state, context):
        fields = self.fields(context, False)
        parts = {"values": parts_of(x, context.workers)}
        own = yield Message(compressors.REDUCE_SCATTER, parts, fields, fields)
        gathered = yield Message(compressors.GATHER, own, fields, fields)
        return from_rows(gathered["values"], context.shape, context.size) / context.workers, state

    def encode(self, x, state, context):
        return {"values": x}, state

    def decode(self, payload, context):
        return payload["values"]

    def fields(self, context, summed):
        return {"values": packing.floats()}


@pytest.mark.parametrize("compressor", [get("none"), get("randomk:1.0"), get("powersgd:2-ef"), Scattered()], ids=str)
@pytest.mark.usefixtures("job")
def test_small_leaves_beside_large_ones_have_the_exact_sum(compressor):
    arrays = leaves()

    def update(gradients):
        own = jax.tree.map(lambda x: x[0], gradients)
        return compressor.update(own, compressor.init(own, jax.random.key(0)), "w")[0]

    means, collectives = carried(lambda: jax.jit(sharded(update, vma=False))(jax.tree.map(on_devices, arrays)))
    assert collectives == DEVICES, "jaxina merges the leaves' sums into one"
    check(means, arrays)


@pytest.mark.usefixtures("job")
def test_without_compression_the_bits_are_those_of_a_psum_of_each_leaf():
    arrays, compressor = jax.tree.map(on_devices, leaves()), get("none")

    def both(gradients):
        own = jax.tree.map(lambda x: x[0], gradients)
        mean = compressor.update(own, compressor.init(own, jax.random.key(0)), "w")[0]
        return mean, jax.lax.pmean(own, "w")

    (got, expected), _ = carried(lambda: jax.jit(sharded(both))(arrays))
    jax.tree.map(np.testing.assert_array_equal, got, expected)


@pytest.mark.usefixtures("job")
def test_workers_of_vmap_on_each_device():
    """JAX adds the workers of a device, and jaxina carries what is left."""
    arrays, compressor = leaves(2 * DEVICES), get("none")

    def update(own):
        return compressor.update(own, compressor.init(own, jax.random.key(0)), ("v", "w"))[0]

    def body(gradients):
        own = jax.tree.map(lambda x: x[0], gradients)
        return jax.tree.map(lambda x: x[0], jax.vmap(update, axis_name="v")(own))

    placed = jax.tree.map(lambda x: on_devices(x.reshape(DEVICES, 2, *x.shape[1:])), arrays)
    means, _ = carried(lambda: jax.jit(sharded(body, vma=False))(placed))
    check(means, arrays)


@pytest.mark.usefixtures("job")
def test_workers_of_pmap():
    arrays, compressor = leaves(), get("none")

    def update(own):
        return compressor.update(own, compressor.init(own, jax.random.key(0)), "w")[0]

    means, collectives = carried(lambda: jax.pmap(update, axis_name="w")(arrays))
    assert collectives == DEVICES
    check(jax.tree.map(lambda x: x[0], means), arrays)


@pytest.mark.usefixtures("job")
def test_workers_of_two_axes():
    arrays, compressor = leaves(), get("none")

    def update(gradients):
        own = jax.tree.map(lambda x: x[0], gradients)
        return compressor.update(own, compressor.init(own, jax.random.key(0)), ("a", "b"))[0]

    axes = mesh(2, 4, names=("a", "b"))
    program = jax.jit(sharded(update, on=axes, ins=P(("a", "b")), outs=P()))
    check(carried(lambda: program(jax.tree.map(jnp.asarray, arrays)))[0], arrays)


def test_where_xla_s_own_collectives_come_to_jaxina(run_job):
    """Before JAX 0.12 a psum beside axes of the partitioner stays with XLA, and comes to jaxina that way."""
    code, out, err = run_job(
        """
from jax.sharding import AxisType
from jaxina import compressors

with jaxina.init() as job:
    mesh = jax.make_mesh((2, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
    compressor = compressors.Partitioned(compressors.get("none"), mesh, "data")
    scales, gradients = {"large": 1e10, "small": 1e-3, "scalar": 1e-20}, {}
    for name, scale in scales.items():
        values = (scale * np.random.default_rng(5).normal(size=(2, 33))).astype(np.float32)
        place = NamedSharding(mesh, P("data"))
        gradients[name] = jax.make_array_from_callback(values.shape, place, lambda index, v=values: v[index])
    state = compressor.init({name: jnp.zeros(33) for name in scales}, jax.random.key(0))
    means, _ = compressor.update(gradients, state)
    for name, scale in scales.items():
        values = (scale * np.random.default_rng(5).normal(size=(2, 33))).astype(np.float32)
        exact = values.astype(np.float64).mean(axis=0)
        error = np.abs(np.asarray(means[name].addressable_data(0)) - exact).max()
        assert error <= 2.0**-24 * np.abs(values).max(), (name, error)
    assert job.statistics()["collectives"] > 0
    print("right")
""",
        "-n",
        4,
    )
    assert (code, sum("right" in line for line in out)) == (0, 4), err
