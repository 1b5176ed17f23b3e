"""Collectives keep the program's order on every device, even if XLA could compute them in another order."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from eight_devices import DEVICES, carried, mesh, on_devices, sharded
from jax import lax
from jax.sharding import PartitionSpec as P

import jaxina
from jaxina import _module

pytestmark = pytest.mark.usefixtures("job")

PSUMS = 16
SIZES = [64 + 8 * i for i in range(PSUMS)]


def independent_psums(operands: list[Any]) -> list[Any]:
    """Sixteen psums, each of another shape. Their data allows XLA to start them in any order."""
    return [lax.psum(jnp.sort(x, axis=0), "w") for x in operands]


def dependent_psums(operands: list[Any]) -> list[Any]:
    """The same sums, but each needs the one before."""
    sums: list[Any] = []
    nothing = jnp.float32(0)
    for x in operands:
        sums.append(lax.psum(jnp.sort(x, axis=0) + nothing, "w"))
        nothing = sums[-1][0, 0] * 0
    return sums


def test_sixteen_independent_psums_always_match(monkeypatch: pytest.MonkeyPatch):
    """On device 3 the data forces the program's order. On the others, nothing but jaxina does.

    Device 3 runs other psums than the others, so the test makes their identities equal.
    """
    set_identity = _module._set_identity
    monkeypatch.setattr(_module, "_set_identity", lambda call, name: set_identity(call, "any"))
    rng = np.random.default_rng(0)
    operands = [on_devices(rng.integers(0, 1000, (DEVICES * 64, size)).astype(np.float32)) for size in SIZES]
    native = jax.jit(sharded(independent_psums, vma=False))(operands)
    with jaxina.collectives(True, bucket_bytes=0):
        ours = jax.jit(
            sharded(
                lambda xs: lax.cond(lax.axis_index("w") == 3, dependent_psums, independent_psums, xs),
                vma=False,
            )
        )
        for _ in range(30):
            for got, want in zip(ours(operands), native, strict=True):
                np.testing.assert_array_equal(got, want)


def test_programs_of_one_thread_keep_their_order():
    """Several programs are in flight at the same time, each of another shape, on all devices."""
    programs = [jax.jit(sharded(lambda x: lax.psum(x, "w"))) for _ in SIZES]
    operands = [on_devices(np.full((DEVICES, size), i, np.float32)) for i, size in enumerate(SIZES)]
    with jaxina.collectives(True):
        for _ in range(20):
            results = [program(x) for program, x in zip(programs, operands, strict=True)]
            for i, result in enumerate(results):
                np.testing.assert_array_equal(result[0], np.full(SIZES[i], i * DEVICES))


def test_equal_psums_are_not_merged_and_unused_ones_not_dropped():
    x = on_devices(np.ones((DEVICES, 4), np.float32))

    def f(x: Any) -> Any:
        lax.psum(x * 3, "w")
        return lax.psum(x, "w") + lax.psum(x, "w")

    got, collectives = carried(lambda: jax.jit(sharded(f))(x), bucket_bytes=0)
    assert np.array_equal(got[0], np.full(4, 2 * DEVICES))
    assert collectives == 3 * DEVICES


@pytest.mark.parametrize("devices", [1, DEVICES])
def test_the_token_stays_inside_the_program(devices: int):
    """The token is neither in the compiled program's signature nor known to JAX's dispatch.

    If it were, a call would cost several times as much.
    """
    on = jax.sharding.Mesh(np.array(jax.devices()[:devices]), ("w",))
    f = jax.jit(sharded(lambda x: lax.psum(x, "w"), on=on))
    x = np.ones((devices, 4), np.float32)
    with jaxina.collectives(True):
        text = f.lower(x).as_text()
        compiled = f.lower(x).compile()
    assert text.count("jaxina_all_reduce") == 1
    signature = re.search(r"func public @main\((.*)", text).group(1).split("{\n")[0]
    assert "token" not in signature
    assert "stablehlo.create_token" in text
    executable = compiled._executable.unsafe_call
    assert not executable.ordered_effects and not executable.has_unordered_effects


def test_donation_survives_the_removal_of_the_token():
    def f(x: Any, y: Any, z: Any) -> Any:
        return lax.psum(x, "w"), y + 1, z * 2

    spec = jax.sharding.NamedSharding(mesh(), P("w"))
    g = jax.jit(sharded(f, ins=(P("w"),) * 3, outs=(P(), P("w"), P("w"))), donate_argnums=(1, 2), out_shardings=None)
    x, y, z = (jax.device_put(np.full((DEVICES, 4), i, np.float32), spec) for i in (1, 2, 3))
    (total, more, twice), _ = carried(lambda: g(x, y, z))
    assert np.array_equal(total[0], np.full(4, DEVICES))
    assert np.array_equal(more, np.full((DEVICES, 4), 3)) and np.array_equal(twice, np.full((DEVICES, 4), 6))
    assert y.is_deleted() and z.is_deleted()


def test_ordered_effects_of_others_keep_theirs(capfd: pytest.CaptureFixture):
    one = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("w",))

    def f(x: Any) -> Any:
        jax.debug.print("before {}", x[0], ordered=True)
        y = sharded(lambda v: lax.psum(v, "w"), on=one)(x)
        jax.debug.print("after {}", y[0], ordered=True)
        return y

    with jaxina.collectives(True):
        assert jax.jit(f)(np.array([4.0], np.float32)) == 4
    jax.effects_barrier()
    assert capfd.readouterr().out.split() == ["before", "4.0", "after", "4.0"]


def test_computed_operands_are_summed_in_place_and_parameters_are_not_copied():
    x = on_devices(np.arange(DEVICES * 4, dtype=np.float32).reshape(DEVICES, 4))

    def two_computed_and_a_parameter(x):
        kept = x * 3
        return (*lax.psum((x * 2, x, kept), "w"), x, kept)

    g = jax.jit(sharded(two_computed_and_a_parameter, outs=(P(), P(), P(), P("w"), P("w"))))
    with jaxina.collectives(True):
        (call,) = re.findall(r"output_to_operand_aliasing=\{(.*?)\}, ", g.lower(x).compile().as_text())
        doubled, total, tripled, same, kept = g(x)
    assert re.findall(r"\{(\d)\}: \((\d), \{\}", call) == [("1", "1"), ("3", "3")]
    want = np.asarray(x).sum(0)
    assert np.array_equal(total[0], want)
    assert np.array_equal(doubled[0], 2 * want) and np.array_equal(tripled[0], 3 * want)
    assert np.array_equal(same, np.asarray(x))
    assert np.array_equal(kept, 3 * np.asarray(x))  # an operand that is still needed is not written over
