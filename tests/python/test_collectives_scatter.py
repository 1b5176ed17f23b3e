"""A carried psum_scatter gives each device its part of the carried psum, wherever JAX inserts a psum_scatter."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from eight_devices import DEVICES, carried, mesh, on_devices, sharded
from jax import lax
from jax.sharding import PartitionSpec as P

import jaxina

pytestmark = pytest.mark.usefixtures("job")

PAIRS = [[i, i + 1] for i in range(0, DEVICES, 2)]


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def run(f: Any, rows: np.ndarray, **options: Any) -> np.ndarray:
    """Runs f on every device with jaxina on, and expects one collective per device."""
    program = jax.jit(sharded(f, outs=P("w"), **options))
    result, collectives = carried(lambda: program(on_devices(rows)))
    assert collectives == DEVICES
    return np.asarray(result)


@pytest.mark.parametrize("vma", [True, False])
@pytest.mark.parametrize("tiled", [True, False])
@pytest.mark.parametrize("dimension", [0, 1])
def test_parts_are_those_of_the_psum(vma: bool, tiled: bool, dimension: int):
    rows = normal(DEVICES, DEVICES, DEVICES, 3)

    def both(x: Any) -> Any:
        whole = lax.psum(x[0], "w")
        part = lax.psum_scatter(x[0], "w", scatter_dimension=dimension, tiled=tiled)
        place = lax.axis_index("w")
        own = lax.dynamic_slice_in_dim(whole, place, 1, dimension)
        return (part if tiled else jnp.expand_dims(part, dimension))[None], own[None]

    program = jax.jit(sharded(both, outs=(P("w"), P("w")), vma=vma))
    # The psum and the psum_scatter are neighbours, so they are merged into one collective.
    (part, own), collectives = carried(lambda: program(on_devices(rows)))
    assert collectives == DEVICES
    assert np.array_equal(np.asarray(part).view(np.uint32), np.asarray(own).view(np.uint32))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "uint32", "complex64"])
def test_types_are_kept(dtype: str):
    small = np.arange(DEVICES * 16).reshape(DEVICES, 16) % 13  # all sums are exact in every type
    rows = small.astype(jnp.dtype(dtype))
    got = run(lambda x: lax.psum_scatter(x[0], "w", tiled=True), rows)
    assert got.dtype == rows.dtype
    assert np.array_equal(got, small.sum(0).astype(rows.dtype))


def test_groups():
    rows = np.arange(DEVICES * 6).reshape(DEVICES, 6).astype(np.int32)
    got = run(lambda x: lax.psum_scatter(x[0], "w", axis_index_groups=PAIRS, tiled=True), rows, vma=False)
    want = np.concatenate([rows[pair].sum(0) for pair in PAIRS])
    assert np.array_equal(got, want)


def test_two_axes_and_one_of_two():
    rows = np.arange(DEVICES * 8).reshape(DEVICES, 8).astype(np.int32)
    on = mesh(2, 4, names=("a", "b"))

    def f(x: Any) -> Any:
        return lax.psum_scatter(x[0], ("a", "b"), tiled=True), lax.psum_scatter(x[0], "b", tiled=True)

    program = jax.jit(sharded(f, on=on, ins=P(("a", "b")), outs=(P(("a", "b")), P(("a", "b")))))
    want = [np.asarray(part) for part in program(rows)]
    got, collectives = carried(lambda: program(rows))
    assert collectives == 2 * DEVICES
    for ours, native in zip(got, want, strict=True):
        assert np.array_equal(np.asarray(ours), native)


def test_order_of_the_devices_in_the_mesh():
    rows = np.arange(DEVICES * 8).reshape(DEVICES, 8).astype(np.int32)
    turned = jax.sharding.Mesh(np.array(jax.devices())[::-1], ("w",))
    program = jax.jit(sharded(lambda x: lax.psum_scatter(x[0], "w", tiled=True), on=turned, outs=P("w")))
    got, collectives = carried(lambda: program(rows))
    assert collectives == DEVICES
    assert np.array_equal(np.asarray(got), rows.sum(0))


def test_the_gradient_of_all_gather_is_carried():
    rows = normal(DEVICES, 4)

    def loss(x: Any) -> Any:
        everything = lax.all_gather(x[0], "w")
        return jnp.sum(everything**2) * (1.0 + lax.axis_index("w"))

    def gradient(x: Any) -> Any:
        return jax.grad(loss)(x)

    native = np.asarray(jax.jit(sharded(gradient, outs=P("w")))(on_devices(rows)))
    np.testing.assert_allclose(run(gradient, rows), native, rtol=1e-6)


def test_under_scan_vmap_and_remat():
    rows = np.arange(DEVICES * 3 * 8).reshape(DEVICES, 3, 8).astype(np.int32)

    def f(x: Any) -> Any:
        def step(total: Any, row: Any) -> Any:
            part = jax.checkpoint(lambda r: lax.psum_scatter(r, "w", tiled=True))(row)
            return total + part, part

        batched = jax.vmap(lambda r: lax.psum_scatter(r, "w", tiled=True))(x[0])
        total, parts = lax.scan(step, lax.pcast(jnp.zeros(1, jnp.int32), "w", to="varying"), x[0])
        return (total + batched.sum() - parts.sum())[None]

    program = jax.jit(sharded(f, outs=P("w")))
    got, collectives = carried(lambda: program(on_devices(rows)))
    assert collectives == 4 * DEVICES
    assert np.array_equal(np.asarray(got).ravel(), rows.sum((0, 1)))


def test_where_the_partitioner_has_axes_left_it_stays_with_xla():
    rows = np.arange(8 * 8).reshape(8, 8).astype(np.int32)
    program = jax.jit(
        jax.shard_map(
            lambda x: lax.psum_scatter(x, "a", tiled=True),
            mesh=mesh(2, 4, names=("a", "b")),
            in_specs=P("a"),
            out_specs=P("a"),
            axis_names={"a"},
        )
    )
    before = jaxina.report().stays.get("psum_scatter in a partial-auto shard_map", 0)
    got, collectives = carried(lambda: program(rows))
    assert collectives == 0
    assert jaxina.report().stays["psum_scatter in a partial-auto shard_map"] == before + 1
    assert np.array_equal(np.asarray(got), rows[:4] + rows[4:])


def test_a_sharded_optimizer_step_is_the_replicated_one():
    """ZeRO (Rajbhandari et al., SC 2020), stage 1: each device keeps only its part of the optimizer's state."""
    # The factors are powers of two, so that it makes no difference whether XLA fuses a product with a sum.
    optimizer = optax.sgd(2.0**-6, momentum=0.5)
    data, weights = normal(DEVICES, 16, 40), normal(40)
    part = weights.size // DEVICES

    def gradient(w: Any, x: Any) -> Any:
        return jax.grad(lambda w: jnp.mean((x @ w - 1.0) ** 2))(w)

    def replicated(w: Any, x: Any) -> Any:
        state = optimizer.init(w)
        for _ in range(3):
            update, state = optimizer.update(lax.psum(gradient(w, x[0]), "w"), state)
            w = w + update
        return w

    def zero(w: Any, x: Any) -> Any:
        state = optimizer.init(w[:part])
        for _ in range(3):
            own = lax.psum_scatter(gradient(w, x[0]), "w", tiled=True)
            update, state = optimizer.update(own, state)
            w = w + lax.all_gather(update, "w", tiled=True)
        return w

    results = []
    for f in (replicated, zero):
        program = jax.jit(sharded(f, ins=(P(), P("w")), vma=False))
        result, collectives = carried(lambda program=program: program(weights, on_devices(data)))
        assert collectives == 3 * DEVICES
        results.append(np.asarray(result))
    assert np.array_equal(results[0].view(np.uint32), results[1].view(np.uint32))
    assert not np.array_equal(results[0], weights)
