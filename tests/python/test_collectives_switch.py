"""The switch: its scopes, JAX's caches, threads; and how errors come out of it."""

from __future__ import annotations

import concurrent.futures
import pickle
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest
from eight_devices import DEVICES, carried, on_devices, sharded
from jax import lax

import jaxina
from jaxina import _native, errors

X = np.arange(DEVICES * 4, dtype=np.float32).reshape(DEVICES, 4)


@pytest.fixture
def job() -> Iterator[jaxina.Job]:
    with jaxina.init(aggregator="embedded", join_timeout=20, timeout=30) as running:
        yield running


def psum(x: Any) -> Any:
    return lax.psum(x, "w")


def program() -> Any:
    """A psum over all devices, not yet compiled."""
    return jax.jit(sharded(lambda x: psum(x)))


def fail(error: Exception) -> None:
    raise error


def is_carried(f: Any) -> bool:
    return "jaxina_all_reduce" in f.lower(X).as_text()


def test_caches_keep_on_and_off_apart(job: jaxina.Job):
    f = program()
    assert not is_carried(f)
    with jaxina.collectives():
        assert is_carried(f)
        with jaxina.collectives():
            assert is_carried(f)
        assert is_carried(f)
    assert not is_carried(f)
    f(X)
    _, collectives = carried(lambda: f(X))
    assert collectives == DEVICES
    before = job.statistics()["collectives"]
    f(X).block_until_ready()
    assert job.statistics()["collectives"] == before


def test_decorator_process_wide_switch_and_single_calls(job: jaxina.Job):
    assert jaxina.collectives()(lambda: is_carried(program()))()
    assert not is_carried(program())

    jaxina.enable()
    try:
        assert is_carried(program())
        with concurrent.futures.ThreadPoolExecutor(1) as other:
            assert other.submit(lambda: is_carried(program())).result(30)
    finally:
        jaxina.disable()
    assert not is_carried(program())

    both = jax.jit(sharded(lambda x: (jaxina.psum(x, "w"), psum(x), jaxina.pmean({"a": x}, "w"))))
    assert both.lower(X).as_text().count("jaxina_all_reduce") == 1  # psum and pmean in one
    ours, native, mean = both(X)
    assert np.array_equal(ours, native)
    assert np.array_equal(ours / DEVICES, mean["a"])


def test_scope_is_the_threads_own(job: jaxina.Job):
    with jaxina.collectives(), concurrent.futures.ThreadPoolExecutor(1) as other:
        assert not other.submit(lambda: is_carried(program())).result(30)
        assert is_carried(program())


def test_psum_before_init_is_a_typed_error_when_compiled():
    f = program()
    with pytest.raises(errors.NotInitializedError, match=r"jaxina\.init\(\)"), jaxina.collectives():
        f(X)
    with jaxina.collectives():
        jaxpr = jax.make_jaxpr(sharded(psum))(X)  # tracing alone needs no job
    assert "psum" in str(jaxpr)


def test_compiled_psum_after_shutdown_is_a_typed_error_and_works_after_the_next_init():
    f = program()
    with jaxina.init(aggregator="embedded"), jaxina.collectives():
        want = f(X)
    with pytest.raises(errors.NotInitializedError), jaxina.collectives():
        f(X).block_until_ready()
    with jaxina.init(aggregator="embedded"), jaxina.collectives():
        assert np.array_equal(f(X), want)


def test_an_aborted_group_raises_the_typed_error_in_scope_and_names_it_outside(job: jaxina.Job):
    f = program()
    with jaxina.collectives():
        f(X).block_until_ready()
        compiled = f.lower(X).compile()
    _native.abort([], "WORKER_LOST", "worker 3 is gone; restart the job")
    with pytest.raises(errors.WorkerLostError, match="worker 3 is gone") as caught, jaxina.collectives():
        f(X).block_until_ready()
    assert isinstance(caught.value.__cause__, jax.errors.JaxRuntimeError)
    assert caught.value.message.startswith("worker 3 is gone; restart the job")

    with pytest.raises(jax.errors.JaxRuntimeError) as untyped:
        compiled(X).block_until_ready()
    assert isinstance(errors.from_exception(untyped.value), errors.WorkerLostError)


def test_devices_that_disagree_get_an_error_not_a_sum(job: jaxina.Job):
    def disagree(x: Any) -> Any:
        return lax.cond(
            lax.axis_index("w") == 3, lambda: psum(x)[0, :2], lambda: psum(x[:, :2])[0]
        )

    f = jax.jit(sharded(disagree, vma=False))
    with pytest.raises(errors.MismatchError), jaxina.collectives():
        f(on_devices(X)).block_until_ready()


def test_other_errors_leave_the_scope_as_they_are(job: jaxina.Job):
    with pytest.raises(ZeroDivisionError), jaxina.collectives():
        raise ZeroDivisionError
    with pytest.raises(jax.errors.JaxRuntimeError, match="not ours"), jaxina.collectives():
        raise jax.errors.JaxRuntimeError("INTERNAL: not ours")


def test_export_is_refused(job: jaxina.Job):
    with pytest.raises(ValueError, match="jaxina_all_reduce"), jaxina.collectives():
        jax.export.export(program())(X)


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
        with pytest.raises(raised), jaxina.collectives():
            f(X).block_until_ready()
    finally:
        _native.shutdown()
