"""Switching jaxina on and off: from init() to shutdown(), scopes, JAX's caches, threads. And how errors are raised."""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest
from eight_devices import DEVICES, on_devices, sharded
from jax import lax
from patience import PATIENCE

import jaxina
from jaxina import _native, _tracing_settings, errors

X = np.arange(DEVICES * 4, dtype=np.float32).reshape(DEVICES, 4)


@pytest.fixture
def job() -> Iterator[jaxina.Job]:
    with jaxina.init(aggregator="embedded", join_timeout=20, timeout=30) as running:
        yield running


def psum(x: Any) -> Any:
    return lax.psum(x, "w")


def program() -> Any:
    """Returns a psum over all devices that is not compiled yet."""
    return jax.jit(sharded(lambda x: psum(x)))


def fail(error: Exception) -> None:
    raise error


def is_carried(f: Any) -> bool:
    return "jaxina_all_reduce" in f.lower(X).as_text()


def test_a_job_carries_from_init_to_shutdown_whenever_a_program_was_traced_first():
    before, within = program(), program()
    assert not is_carried(before)
    native = before(X)
    with jaxina.init(aggregator="embedded") as job:
        assert is_carried(before) and is_carried(within)
        assert np.array_equal(before(X), native)
        carried = job.statistics()["collectives"]
        for _ in range(10):  # it is still carried when it is called again
            before(X).block_until_ready()
        assert job.statistics()["collectives"] >= carried + 10
    assert not is_carried(before) and not is_carried(within)
    assert np.array_equal(within(X), native)


def test_a_scope_keeps_a_piece_with_xla(job: jaxina.Job):
    f = program()
    assert is_carried(f)
    with jaxina.collectives(False):
        assert not is_carried(f)
        with jaxina.collectives():  # without an argument it changes nothing
            assert not is_carried(f)
        with jaxina.collectives(True):
            assert is_carried(f)
        assert not is_carried(f)
        before = job.statistics()["collectives"]
        f(X).block_until_ready()
        assert job.statistics()["collectives"] == before
    assert is_carried(f)
    assert not jaxina.collectives(False)(lambda: is_carried(program()))(), "as a decorator"


LATER = [{"bits": 8}, {"rounding": "stochastic"}, {"seed": 7}, {"smallest": 0}, {"bucket_bytes": 0}]


def within(settings: dict[str, object], x):
    with jaxina.collectives(**settings):
        return x * 2.0


@pytest.mark.parametrize("settings", LATER, ids=str)
@pytest.mark.parametrize(
    "trace",
    [
        jax.jit,
        lambda f: jax.jit(jax.grad(f)),
        lambda f: jax.grad(jax.jit(f)),
        lambda f: jax.jit(jax.vmap(jax.grad(f), axis_size=3, in_axes=None)),
        lambda f: jax.jit(sharded(f, ins=jax.P(), outs=jax.P())),
        lambda f: lambda x: lax.scan(lambda carry, _: (f(carry), None), x, None, 2),
        lambda f: jax.jit(jaxina.collectives(bits=16)(f)),
    ],
    ids=["jit", "grad in jit", "jit in grad", "vmap and grad in jit", "shard_map", "scan", "scope in jit"],
)
def test_a_scope_that_would_have_no_effect_is_refused(trace, settings: dict[str, object]):
    with pytest.raises(errors.InvalidArgumentError, match="around the call of the jitted function"):
        trace(functools.partial(within, settings))(1.0)


@pytest.mark.parametrize("settings", LATER, ids=str)
def test_a_scope_that_has_an_effect_or_changes_nothing_is_not_refused(settings: dict[str, object]):
    f = functools.partial(within, settings)
    assert f(1.0) == 2.0 and jax.grad(f)(1.0) == 2.0 and jax.vmap(jax.grad(f))(np.ones(3, np.float32)).sum() == 6.0
    assert jax.grad(lambda x: jax.jvp(f, (x,), (x,))[1])(1.0) == 2.0
    with jaxina.collectives(**settings):
        assert jax.jit(f)(1.0) == 2.0
    assert jax.jit(functools.partial(within, {"carried": False}))(1.0) == 2.0


def test_a_loss_has_its_gradients_sums_carried_too(job: jaxina.Job):
    loss = sharded(lambda w, x: lax.psum((w * x).sum(), "w"), ins=(jax.P(), jax.P("w")), outs=jax.P())
    text = jax.jit(jax.value_and_grad(loss)).lower(np.float32(1), X).as_text()
    assert text.count("stablehlo.all_reduce") == 0 and text.count("jaxina_all_reduce") >= 1


def test_threads_carry_as_the_job_does_and_a_scope_is_its_threads_own(job: jaxina.Job):
    with jaxina.collectives(False), concurrent.futures.ThreadPoolExecutor(1) as other:
        assert other.submit(lambda: is_carried(program())).result(30)
        assert not is_carried(program())


def test_two_threads_inside_one_scope_keep_their_own_settings():
    shared, entered, left = jaxina.collectives(bits=8), threading.Event(), threading.Event()

    def bits() -> int:
        return _tracing_settings.precision.value.bits

    def elsewhere() -> tuple[int, int]:
        with shared:
            entered.set()
            assert left.wait(30)
            within = bits()
        return within, bits()

    with concurrent.futures.ThreadPoolExecutor(1) as other, jaxina.collectives(bits=16):
        with shared:
            result = other.submit(elsewhere)
            assert entered.wait(30)
        left.set()
        assert result.result(30) == (8, 32)
        assert bits() == 16


def test_psum_without_a_job_is_a_typed_error_when_compiled_if_it_is_to_be_carried():
    f = program()
    with pytest.raises(errors.NotInitializedError, match=r"jaxina\.init\(\)"), jaxina.collectives(True):
        f(X)
    with jaxina.collectives(True):
        jaxpr = jax.make_jaxpr(sharded(psum))(X)  # tracing alone needs no job
    assert "psum" in str(jaxpr)


def test_a_psum_compiled_ahead_is_a_typed_error_after_shutdown_and_works_in_the_next_job():
    with jaxina.init(aggregator="embedded"):
        compiled = program().lower(X).compile()
        want = compiled(X)
    with pytest.raises(errors.NotInitializedError), errors.typed():
        compiled(X).block_until_ready()
    with jaxina.init(aggregator="embedded"):
        assert np.array_equal(compiled(X), want)


@pytest.mark.parametrize("ahead", [False, True], ids=["jit", "compiled ahead"])
@pytest.mark.parametrize("within", [True, False], ids=["in a scope", "outside"])
def test_one_pattern_catches_in_all_cases(job: jaxina.Job, ahead: bool, within: bool):
    f = program()
    f(X).block_until_ready()
    run = f.lower(X).compile() if ahead else f
    _native.abort([], "WORKER_LOST", "worker 3 is gone; restart the job")
    around = jaxina.collectives() if within else contextlib.nullcontext()
    with pytest.raises(errors.WorkerLostError, match="worker 3 is gone") as caught, errors.typed(), around:
        run(X).block_until_ready()
    assert caught.value.message.startswith("worker 3 is gone; restart the job")
    assert isinstance(caught.value.__cause__, jax.errors.JaxRuntimeError | ValueError)


def test_it_catches_where_dispatch_is_synchronous_too():
    environment = {**os.environ, "JAX_CPU_ENABLE_ASYNC_DISPATCH": "0"}
    command = [sys.executable, "-m", "pytest", "-q", __file__, "-k", "one_pattern"]
    finished = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert finished.returncode == 0 and "4 passed" in finished.stdout, finished.stdout + finished.stderr


def test_devices_that_disagree_get_an_error_not_a_sum(job: jaxina.Job):
    def disagree(x: Any) -> Any:
        return lax.cond(lax.axis_index("w") == 3, lambda: psum(x)[0, :2], lambda: psum(x[:, :2])[0])

    f = jax.jit(sharded(disagree, vma=False))
    with pytest.raises(errors.MismatchError), errors.typed():
        f(on_devices(X)).block_until_ready()


def test_other_errors_stay_as_they_are():
    with pytest.raises(ZeroDivisionError), errors.typed():
        raise ZeroDivisionError
    with pytest.raises(jax.errors.JaxRuntimeError, match="not ours"), errors.typed():
        raise jax.errors.JaxRuntimeError("INTERNAL: not ours")


def test_export_is_refused(job: jaxina.Job):
    with pytest.raises(ValueError, match="jaxina_all_reduce"):
        jax.export.export(program())(X)
    with jaxina.collectives(False):
        assert jax.export.export(program())(X).nr_devices == DEVICES


def test_errors_of_the_engine_reach_python_typed(job: jaxina.Job):
    with pytest.raises(errors.InvalidArgumentError):
        _native.start(lambda group: None, print)
    with pytest.raises(errors.InvalidArgumentError, match="NO_SUCH_CODE"):
        _native.abort([], "NO_SUCH_CODE", "")
    assert pickle.loads(pickle.dumps(errors.MismatchError("m"))).message == "m"


@pytest.mark.parametrize(
    "connect, raised",
    [
        (lambda group: fail(errors.RankTakenError("rank 2 twice")), errors.RankTakenError),
        (lambda group: 1 / 0, errors.SystemCallError),
        (lambda group: "nonsense", errors.InvalidArgumentError),
    ],
    ids=["typed", "untyped", "nonsense"],
)
def test_errors_of_the_connector_end_the_collective(connect: Any, raised: type[Exception]):
    _native.start(connect, print)
    try:
        f = program()
        with pytest.raises(raised), errors.typed(), jaxina.collectives(True):
            f(X).block_until_ready()
    finally:
        _native.shutdown()
