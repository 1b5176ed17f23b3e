"""How psums lower for GPUs. This needs no GPU, because programs are lowered for the platform `cuda`, but not compiled.

tests/native/device_test.cc tests what the handlers do, and `make gpu-check` does so on a machine with a GPU.
"""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import pytest
from eight_devices import DEVICES, sharded
from jax.sharding import PartitionSpec as P

import jaxina
from jaxina import _lowering

pytestmark = pytest.mark.usefixtures("job")

_CALL = re.compile(r"stablehlo\.custom_call @(jaxina_all_reduce\w*)\(([^)]*)\)")


@pytest.fixture
def with_the_part_for_gpus(monkeypatch):
    monkeypatch.setattr(_lowering, "gpu_handlers", lambda: dict.fromkeys((_lowering.START, _lowering.DONE)))


def lowered(f, *args, bucket_bytes=None, platform="cuda") -> str:
    with jaxina.collectives(True, bucket_bytes=bucket_bytes):
        return jax.jit(f).trace(*args).lower(lowering_platforms=(platform,)).as_text()


def calls(text: str) -> list[tuple[str, int]]:
    """Returns jaxina's custom calls in their order, each with the number of its operands."""
    return [(name, len(operands.split(","))) for name, operands in _CALL.findall(text)]


def two_psums(x, y):
    return jax.lax.psum(x, "w"), jax.lax.psum(y, "w")


X = jnp.ones((DEVICES, 4), jnp.float32)


def test_a_psum_is_started_and_finished(with_the_part_for_gpus):
    text = lowered(sharded(lambda x: jax.lax.psum(x, "w")), X)
    # The start takes the token and the operand. The end takes the result and the operand.
    assert calls(text) == [("jaxina_all_reduce_start", 2), ("jaxina_all_reduce_done", 2)]
    assert 'all_reduce"' not in text


def test_the_two_calls_share_an_identity_that_others_do_not_have(with_the_part_for_gpus):
    text = lowered(sharded(two_psums, ins=(P("w"), P("w")), outs=(P(), P())), X, X, bucket_bytes=0)
    assert [name for name, _ in calls(text)].count("jaxina_all_reduce_start") == 2
    identities = re.findall(r"@(jaxina_all_reduce_\w+)\(.*identity = (-?\d+)", text)
    starts = [i for name, i in identities if name.endswith("start")]
    dones = [i for name, i in identities if name.endswith("done")]
    assert len(set(starts)) == 2
    assert sorted(starts) == sorted(dones)


def test_neighbours_are_merged_and_end_together(with_the_part_for_gpus):
    text = lowered(sharded(two_psums, ins=(P("w"), P("w")), outs=(P(), P())), X, X)
    assert calls(text) == [("jaxina_all_reduce_start", 3), ("jaxina_all_reduce_done", 4)]


def test_what_does_not_need_the_sum_stands_between_the_two(with_the_part_for_gpus):
    def f(x):
        total = jax.lax.psum(x, "w")
        other = jnp.tanh(x @ x.T)
        return total, other

    text = lowered(sharded(f, outs=(P(), P("w"))), X)
    start, work, done = (text.index(word) for word in ("reduce_start", "tanh", "reduce_done"))
    assert start < work < done


def test_the_end_is_in_place_and_the_start_is_not(with_the_part_for_gpus):
    text = lowered(sharded(lambda x: jax.lax.psum(2 * x, "w")), X)
    start, done = (line for line in text.splitlines() if "custom_call @jaxina" in line)
    assert "output_operand_alias" not in start
    assert re.search(r"output_operand_alias<output_tuple_indices = \[\], *operand_index = 0", done)


def test_a_sum_that_nothing_uses_is_waited_for_all_the_same(with_the_part_for_gpus):
    def f(x):
        jax.lax.psum(x, "w")
        return jax.lax.psum(2 * x, "w")

    text = lowered(sharded(f), X, bucket_bytes=0)
    ends = [line for line in text.splitlines() if "@jaxina_all_reduce_done" in line]
    assert len(ends) == 2
    assert all("has_side_effect = true" in line for line in ends)


@pytest.mark.parametrize("length", [1, 3])
def test_loops_and_branches(with_the_part_for_gpus, length):
    def f(x):
        def body(carry, _):
            return jax.lax.cond(carry[0, 0] > 0, lambda c: jax.lax.psum(c, "w") / DEVICES, lambda c: c, carry), None

        return jax.lax.scan(body, x, length=length)[0]

    text = lowered(sharded(f, outs=P("w"), vma=False), X)
    assert sorted(name for name, _ in calls(text)) == ["jaxina_all_reduce_done", "jaxina_all_reduce_start"]


def test_psum_scatter_gradients_and_complex(with_the_part_for_gpus):
    def f(x):
        return jax.lax.psum_scatter(x, "w", tiled=True)

    assert len(calls(lowered(sharded(f, outs=P("w")), jnp.ones((DEVICES * DEVICES,))))) == 2
    loss = sharded(lambda w, x: jax.lax.psum(jnp.sum(jnp.tanh(x * w)), "w"), ins=(P(), P("w")))
    assert len(calls(lowered(jax.grad(loss), jnp.ones(4), X))) >= 2
    assert len(calls(lowered(sharded(lambda x: jax.lax.psum(x, "w")), X.astype(jnp.complex64)))) == 2


def test_the_cpu_keeps_its_one_call():
    text = lowered(sharded(lambda x: jax.lax.psum(x, "w")), X, platform="cpu")
    assert calls(text) == [("jaxina_all_reduce", 2)]


def test_without_the_part_for_gpus_a_psum_on_a_gpu_stays_with_xla_visibly(monkeypatch):
    monkeypatch.setattr(_lowering, "gpu_handlers", dict)
    text = lowered(sharded(lambda x: jax.lax.psum(x, "w")), X)
    assert calls(text) == []
    assert "stablehlo.all_reduce" in text
    assert 'jaxina.stays = "jaxina-cuda13 is not installed"' in text  # the report reads this from the compiled program
