"""Psums that do not depend on each other are merged into one collective. The results do not change."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from eight_devices import DEVICES, carried, mesh, sharded
from jax import lax
from jax.sharding import PartitionSpec as P

import jaxina

pytestmark = pytest.mark.usefixtures("job")

X = np.random.default_rng(0).integers(-9, 9, (DEVICES * 2, 8)).astype(np.float32)
TARGET = "jaxina_all_reduce"


def psum(x: Any) -> Any:
    return lax.psum(x, "w")


def tree_of_200(x: Any) -> Any:
    return psum([x[0, :4] * i for i in range(200)])


def uses_between(x: Any) -> Any:
    """Operations that use the first sum stand between the psums. One of them is in the body of a loop."""
    a = psum(x)
    grown = lax.fori_loop(0, 3, lambda _, v: v + a, x)
    shown = jnp.sin(a) + 1
    b = psum(x * 2)
    return a, grown, shown, b, a + b


def dependent(x: Any) -> Any:
    a = psum(x)
    return psum(a + x), psum(x * 3)


def dependent_through_a_loop(x: Any) -> Any:
    a = psum(x)
    return psum(lax.fori_loop(0, 2, lambda _, v: v + a, x))


def mixed_types(x: Any) -> Any:
    return psum((x, x.astype(jnp.int8), x[:0], x.astype(jnp.bfloat16), lax.complex(x, -x), x[0, 0]))


def other_groups_between(x: Any) -> Any:
    pairs = [[0, 1], [2, 3], [4, 5], [6, 7]]
    return psum(x), lax.psum(x, "w", axis_index_groups=pairs), psum(x * 2), psum(x * 3)


def in_bodies(x: Any) -> Any:
    def step(carry: Any, _: Any) -> Any:
        sums = psum((carry, x, x * 2))
        return jnp.sign(sums[0]) + sums[1] + sums[2], sums[0].sum()

    scanned = lax.scan(step, jnp.zeros_like(x), None, length=3)
    chosen = lax.cond(psum(x.sum()) > 0, lambda: psum((x, -x)), lambda: psum((x * 5, x)))
    return scanned, chosen


def through_a_called_function(x: Any) -> Any:
    both = jax.jit(lambda v: psum((v, v * 2)))
    return both(x), both(x + 1), psum((x, x))


@pytest.mark.parametrize(
    "f, calls",
    [
        (tree_of_200, 1),
        (uses_between, 1),
        (dependent, 2),
        (dependent_through_a_loop, 2),
        (mixed_types, 1),
        (other_groups_between, 3),
        (in_bodies, 4),  # scan's, the predicate's, and one in each branch
        (through_a_called_function, 2),
    ],
)
def test_merged_psums_give_the_same_results(f: Callable[[Any], Any], calls: int):
    program = jax.jit(sharded(f, vma=False))
    want = program(X)
    with jaxina.collectives(True):
        assert program.lower(X).as_text().count(f"@{TARGET}") == calls
    got, merged = carried(lambda: program(X))
    single, unmerged = carried(lambda: jax.jit(sharded(f, vma=False))(X), bucket_bytes=0)
    assert merged < unmerged or (merged == unmerged and f is dependent_through_a_loop)
    jax.tree.map(np.testing.assert_array_equal, got, want)
    jax.tree.map(np.testing.assert_array_equal, single, want)


def test_what_does_not_depend_on_the_last_moves_next_to_it():
    """Of three psums, the second depends on the first. The second and the third are merged."""
    with jaxina.collectives(True):
        text = jax.jit(sharded(dependent, vma=False)).lower(X).as_text()
    operands = [len(re.findall("%", call)) for call in re.findall(rf"@{TARGET}\((.*?)\)", text)]
    assert operands == [2, 3]  # the token is one of them


@pytest.mark.parametrize("bucket, sizes", [(0, [1] * 6), (511, [1] * 6), (512, [2] * 3), (10**6, [6])])
def test_a_bucket_holds_at_most_its_bytes(bucket: int, sizes: list[int]):
    def six(x: Any) -> Any:
        return psum([jnp.tile(x, (4, 1)) * i for i in range(6)])  # 256 bytes each

    program = jax.jit(sharded(six, vma=False))
    with jaxina.collectives(True, bucket_bytes=bucket):
        text = program.lower(X).as_text()
    assert [len(re.findall("%", call)) - 1 for call in re.findall(rf"@{TARGET}\((.*?)\)", text)] == sizes


def test_the_bucket_of_the_scope_is_inherited_and_part_of_the_cache_keys():
    program = jax.jit(sharded(tree_of_200))
    with jaxina.collectives(True, bucket_bytes=0):
        assert program.lower(X).as_text().count(f"@{TARGET}") == 200
        with jaxina.collectives():
            assert program.lower(X).as_text().count(f"@{TARGET}") == 200
    with jaxina.collectives(True):
        assert program.lower(X).as_text().count(f"@{TARGET}") == 1


def test_gradients_of_a_tree_of_parameters_leave_as_one():
    def loss(parameters: Any, x: Any) -> Any:
        for w in parameters:
            x = jnp.tanh(x @ w)
        return lax.pmean((x**2).sum(), "w")

    parameters = [np.eye(8, dtype=np.float32) * (1 + i) for i in range(5)]
    step = jax.jit(sharded(jax.grad(loss), ins=(P(), P("w"))))
    want = step(parameters, X)
    got, collectives = carried(lambda: step(parameters, X))
    # One is the loss's psum, which remains although its value is not used. The other is that of all gradients.
    assert collectives <= 2 * DEVICES
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-6)


def test_merging_over_axes_of_a_mesh():
    grid = mesh(4, 2, names=("a", "b"))
    program = jax.jit(
        sharded(
            lambda x: (lax.psum((x, x * 2), "a"), lax.psum((x, x * 3), "b")),
            on=grid,
            ins=P(("a", "b")),
            outs=(P("b"), P("a")),
        )
    )
    want = program(X)
    got, collectives = carried(lambda: program(X))
    jax.tree.map(np.testing.assert_array_equal, got, want)
    assert collectives == 2 * DEVICES
