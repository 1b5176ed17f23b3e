"""psum under JAX's transformations gives the same results as XLA's own, with the expected number of collectives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from eight_devices import DEVICES, carried, mesh, sharded
from jax import lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

import jaxina

X = np.random.default_rng(0).standard_normal((DEVICES * 4, 6)).astype(np.float32)
W = np.linspace(0.1, 0.6, 6, dtype=np.float32)

pytestmark = pytest.mark.usefixtures("job")


def psum(x: Any) -> Any:
    return lax.psum(x, "w")


def varying(x: Any, vma: bool) -> Any:
    return lax.pcast(x, "w", to="varying") if vma else x


def loss(w: Any, x: Any) -> Any:
    return lax.pmean(jnp.sin(x @ w).sum(), "w")


def scanned(x: Any) -> Any:
    def step(carry: Any, _: Any) -> Any:
        carry = carry * 0.5 + lax.pmean(x, "w")
        return carry, psum(x * 2).sum()

    return lax.scan(step, jnp.zeros_like(X[:4]), None, length=3)


def looped(x: Any, vma: bool) -> Any:
    def unfinished(state: Any) -> Any:
        return psum(state[1].sum() * 0 + 1) * state[0] < DEVICES * 4

    def step(state: Any) -> Any:
        return state[0] + 1, state[1] + varying(psum(state[1]), vma) * 0.01

    return lax.while_loop(unfinished, step, (0, x))[1]


def nested(x: Any) -> Any:
    inner = jax.jit(lambda y: psum(jnp.sin(y)))
    return inner(x) + inner(x * 2) + psum(x)


def custom(vma: bool) -> Callable[[Any], Any]:
    @jax.custom_vjp
    def total(x: Any) -> Any:
        return psum(x)

    total.defvjp(lambda x: (psum(x), None), lambda _, g: (varying(g, vma) if vma else psum(g),))
    return total


@pytest.mark.parametrize("vma", [True, False], ids=["vma", "no_vma"])
@pytest.mark.parametrize(
    "name, per_device",
    # Collectives per device if none are merged, with vma and without. Gradients of replicated parameters are reduced
    # once more, by the transpose of pvary (with vma) or of psum itself (without).
    {
        "jit": (1, 1),
        "eager": (1, 1),
        "scan": (6, 6),
        "cond": (1, 1),
        "while": (9, 9),
        "vmap": (1, 1),
        "vmap_outside": (1, 1),
        "nested_jit": (3, 3),
        "grad": (2, 2),
        "grad_outside": (2, 3),
        "remat": (2, 2),
        "custom_vjp": (1, 3),
        "jvp_and_hessian": (6, 5),
        "no_operand": (1, 1),
    }.items(),
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_transformed_psum_equals_xlas(name: str, per_device: tuple[int, int], vma: bool):
    def grad_outside(w: Any) -> Any:
        return sharded(loss, ins=(P(), P("w")), vma=vma)(w, X)

    programs: dict[str, Callable[[], Any]] = {
        "jit": lambda: jax.jit(sharded(psum, vma=vma))(X),
        "eager": lambda: sharded(psum, vma=vma)(X),
        "scan": lambda: jax.jit(sharded(scanned, outs=(P(), P()), vma=vma))(X),
        "cond": lambda: jax.jit(
            sharded(
                lambda x, p: lax.cond(p > 0, psum, lambda y: psum(y * 2), x),
                ins=(P("w"), P()),
                vma=vma,
            )
        )(X, -1),
        "while": lambda: jax.jit(sharded(lambda x: looped(x, vma), outs=P("w"), vma=vma))(X),
        "vmap": lambda: jax.jit(sharded(jax.vmap(psum), vma=vma))(X),
        "vmap_outside": lambda: jax.jit(jax.vmap(sharded(psum, vma=vma)))(np.stack([X, X * 2])),
        "nested_jit": lambda: jax.jit(sharded(nested, vma=vma))(X),
        "grad": lambda: jax.jit(sharded(jax.value_and_grad(loss), ins=(P(), P("w")), outs=(P(), P()), vma=vma))(W, X),
        "grad_outside": lambda: jax.jit(jax.value_and_grad(grad_outside))(W),
        "remat": lambda: jax.jit(sharded(jax.grad(jax.checkpoint(loss)), ins=(P(), P("w")), vma=vma))(W, X),
        "custom_vjp": lambda: (
            jax.jit(sharded(custom(vma), vma=vma))(X),
            jax.jit(sharded(jax.grad(lambda x: custom(vma)(x).sum()), outs=P("w"), vma=vma))(X),
        ),
        "jvp_and_hessian": lambda: jax.jit(
            sharded(
                lambda w, x: (
                    jax.jvp(lambda v: loss(v, x), (w,), (w,)),
                    jax.hessian(loss)(w, x),
                ),
                ins=(P(), P("w")),
                vma=vma,
            )
        )(W, X),
        "no_operand": lambda: jax.jit(
            sharded(lambda: psum(lax.axis_index("w").astype(jnp.float32)), ins=(), vma=vma)
        )(),
    }
    want = programs[name]()
    got, collectives = carried(programs[name], bucket_bytes=0)
    merged, fewer = carried(programs[name])
    for result in (got, merged):
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-6, atol=2e-6), result, want)
    assert collectives == DEVICES * per_device[0 if vma else 1]
    assert DEVICES <= fewer <= collectives


@pytest.mark.parametrize("vma", [True, False], ids=["vma", "no_vma"])
def test_sums_over_some_axes_of_a_mesh(vma: bool):
    def sums(x: Any) -> Any:
        return lax.psum(x, "a"), lax.psum(x, "b"), lax.psum(x, ("a", "b")), lax.psum(x, ("b", "a"))

    grid = mesh(4, 2, names=("a", "b"))
    f = sharded(sums, on=grid, ins=P(("a", "b")), outs=(P("b"), P("a"), P(), P()), vma=vma)
    whole = np.round(X * 8)
    got, collectives = carried(lambda: jax.jit(f)(whole))
    parts = whole.reshape(4, 2, 4, 6)
    assert np.array_equal(got[0], parts.sum(0).reshape(8, 6))
    assert np.array_equal(got[1], parts.sum(1).reshape(16, 6))
    assert np.array_equal(got[2], parts.sum((0, 1)))
    assert np.array_equal(got[3], parts.sum((0, 1)))
    assert collectives == 4 * DEVICES


@pytest.mark.parametrize("groups", [[[0, 1, 2, 3], [4, 5, 6, 7]], [[5, 0], [1, 2, 3, 4, 6, 7]]], ids=["even", "uneven"])
def test_axis_index_groups(groups: list[list[int]]):
    whole = np.round(X * 8).reshape(DEVICES, 4, 6)
    f = sharded(lambda x: lax.psum(x, "w", axis_index_groups=groups), outs=P("w"), vma=False)
    got, collectives = carried(lambda: jax.jit(f)(whole))
    for group in groups:
        for device in group:
            assert np.array_equal(got[device], whole[group].sum(0))
    assert collectives == DEVICES


def test_groups_of_one_copy_without_the_engine():
    f = sharded(lambda x: lax.psum(x, "w", axis_index_groups=[[i] for i in range(DEVICES)]), outs=P("w"), vma=False)
    got, collectives = carried(lambda: jax.jit(f)(X))
    assert np.array_equal(got, X)
    assert collectives == 0


def test_order_of_devices_in_the_mesh():
    order = [3, 1, 0, 2, 7, 6, 5, 4]
    permuted = Mesh(np.array(jax.devices())[order], ("w",))
    groups = [[0, 1, 2], [3, 4, 5, 6, 7]]
    whole = np.round(X * 8).reshape(DEVICES, 4, 6)
    f = sharded(lambda x: lax.psum(x, "w", axis_index_groups=groups), on=permuted, outs=P("w"), vma=False)
    got, _ = carried(lambda: jax.jit(f)(whole))
    assert np.array_equal(got[0], whole[:3].sum(0))
    assert np.array_equal(got[7], whole[3:].sum(0))


def test_some_of_the_devices():
    pair = Mesh(np.array(jax.devices())[[5, 1]], ("w",))
    got, collectives = carried(lambda: jax.jit(sharded(psum, on=pair))(np.round(X * 8)))
    assert np.array_equal(got, np.round(X * 8).reshape(2, 16, 6).sum(0))
    assert collectives == 2


def test_positional_axes_and_axes_of_vmap_are_summed_within_the_device():
    whole = np.round(X * 8)
    f = jax.jit(sharded(lambda x: lax.psum(x, ("w", 0)), vma=False))
    got, collectives = carried(lambda: f(whole))
    assert np.array_equal(got, whole.sum(0))
    assert collectives == DEVICES

    rows = jax.vmap(lambda row: lax.psum(row, ("w", "rows")), axis_name="rows", out_axes=None)
    got, collectives = carried(lambda: jax.jit(sharded(rows, vma=False))(whole))
    assert np.array_equal(got, whole.sum(0))
    assert collectives == DEVICES


def test_mesh_from_the_context_or_from_the_arguments():
    whole = np.round(X * 8)
    everywhere = mesh()
    with jax.set_mesh(everywhere):
        f = jax.jit(jax.shard_map(psum, in_specs=P("w"), out_specs=P()))
        got, _ = carried(lambda: f(whole))
    assert np.array_equal(got, whole.reshape(DEVICES, 4, 6).sum(0))

    placed = jax.device_put(whole, jax.sharding.NamedSharding(everywhere, P("w")))
    f = jax.jit(jax.shard_map(psum, mesh=everywhere.abstract_mesh, in_specs=P("w"), out_specs=P()))
    got, collectives = carried(lambda: f(placed))
    assert np.array_equal(got, whole.reshape(DEVICES, 4, 6).sum(0))
    assert collectives == DEVICES


def test_partial_auto_is_carried_or_visibly_left_to_xla():
    grid = mesh(4, 2, names=("a", "b"))
    whole = jax.device_put(np.round(X * 8), jax.sharding.NamedSharding(grid, P("a", "b")))
    f = jax.jit(jax.shard_map(lambda x: lax.psum(x, "a"), mesh=grid, in_specs=P("a"), out_specs=P(), axis_names={"a"}))
    got, collectives = carried(lambda: f(whole))
    assert np.array_equal(got, np.round(X * 8).reshape(4, 8, 6).sum(0))
    assert collectives == (DEVICES if jax.__version_info__ >= (0, 12) else 0)


def test_shard_map_in_shard_map_is_carried_or_visibly_left_to_xla():
    grid = mesh(4, 2, names=("a", "b"))

    def sums(v: Any) -> Any:
        def step(total: Any, row: Any) -> Any:
            return total + jax.jit(lambda r: lax.psum(r, "b"))(row), None

        by_scan, _ = lax.scan(step, lax.pcast(jnp.zeros(v.shape[1]), "a", to="varying"), v)
        return lax.cond(v.shape[0] > 0, lambda: lax.psum(v, "b"), lambda: lax.psum(v * 2, "b")), by_scan

    def inner(x: Any) -> Any:
        return jax.shard_map(sums, in_specs=P("b"), out_specs=P(), axis_names={"b"})(x)

    def outer(x: Any) -> Any:
        return jax.shard_map(inner, mesh=grid, in_specs=P("a"), out_specs=P("a"), axis_names={"a"})(x)

    whole = np.round(X * 8)
    reason = "the program has a shard_map inside another shard_map"
    before = jaxina.report().stays.get(reason, 0)
    (got, by_scan), collectives = carried(lambda: jax.jit(outer)(whole))
    want = whole.reshape(4, 2, 4, 6).sum(1)
    assert np.array_equal(got, want.reshape(16, 6))
    assert np.array_equal(by_scan, want.sum(1).reshape(24))
    if jax.__version_info__ >= (0, 12):
        assert collectives == DEVICES * (1 + 4)
    else:
        assert collectives == 0 and jaxina.report().stays[reason] == before + 2


def test_a_program_with_two_meshes_is_visibly_left_to_xla():
    # The meshes have equal shapes, because JAX 0.12 and newer refuse a program with meshes of different shapes.
    grids = mesh(4, 2, names=("a", "b")), mesh(4, 2, names=("c", "d"))

    def summed(grid: Any, axis: str) -> Any:
        spec = P(*grid.axis_names)
        return jax.shard_map(lambda x: lax.psum(x, axis), mesh=grid, in_specs=spec, out_specs=spec)

    first, second = summed(grids[0], "a"), summed(grids[1], "c")
    whole = np.round(X[:, :4] * 8)
    reason = "the program has several meshes"
    before = jaxina.report().stays.get(reason, 0)
    got, collectives = carried(lambda: jax.jit(lambda x: second(first(x)))(whole))
    assert collectives == 0 and jaxina.report().stays[reason] == before + 2
    _, each = carried(lambda: jax.jit(second)(np.asarray(jax.jit(first)(whole))))
    assert each == 2 * DEVICES, "one program after the other"
    rows = np.tile(whole.reshape(4, -1, 4).sum(0), (4, 1))
    assert np.array_equal(got, 4 * rows)


def test_donated_arguments_and_ahead_of_time_compilation():
    def step(x: Any, y: Any) -> Any:
        return psum(x), y + 1

    f = jax.jit(sharded(step, ins=(P("w"), P("w")), outs=(P(), P("w"))), donate_argnums=(1,))
    spec = jax.sharding.NamedSharding(mesh(), P("w"))
    whole, counter = jax.device_put(np.round(X * 8), spec), jax.device_put(X, spec)
    (total, counted), collectives = carried(lambda: f.lower(whole, counter).compile()(whole, counter))
    assert np.array_equal(total, np.round(X * 8).reshape(DEVICES, 4, 6).sum(0))
    assert np.array_equal(counted, X + 1)
    assert counter.is_deleted()
    assert collectives == DEVICES


def test_pmap():
    whole = np.round(X * 8).reshape(DEVICES, 4, 6)
    got, collectives = carried(lambda: jax.pmap(lambda x: lax.psum(x, "i"), axis_name="i")(whole))
    assert np.array_equal(got, np.broadcast_to(whole.sum(0), whole.shape))
    assert collectives == DEVICES
