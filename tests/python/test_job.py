"""jaxina.init and jaxina.shutdown in this process."""

import socket

import jax
import pytest

import jaxina
from jaxina import _native, _watching, job, joining
from jaxina.errors import InvalidArgumentError, NotInitializedError, SwitchUnreachableError


@pytest.fixture(autouse=True)
def shut_down():
    yield
    if job.current() is not None:
        jaxina.shutdown()


def test_init_shutdown_and_init_again():
    for _ in range(3):
        made = jaxina.init()
        assert (made.aggregator, made.process, made.processes) == ("embedded", 0, 1)
        assert made.statistics()["collectives"] == 0
        jaxina.shutdown()
        assert job.current() is None


def test_init_twice_says_what_to_do():
    jaxina.init()
    with pytest.raises(InvalidArgumentError, match="shutdown"):
        jaxina.init()


def test_shutdown_without_init():
    with pytest.raises(NotInitializedError):
        jaxina.shutdown()


def test_a_failed_init_can_be_repeated():
    with pytest.raises(InvalidArgumentError, match="slots"):
        jaxina.init(slots=-1)
    with jaxina.init(slots=4) as made:
        assert made.configuration.slots == 4
    assert job.current() is None


@pytest.mark.parametrize("switch", ["strict", "catch_all"])
def test_switches_are_true_or_false(switch):
    with pytest.raises(InvalidArgumentError, match=f"{switch} must be True, False or None, not 'no'"):
        jaxina.init(**{switch: "no"})


def test_leaving_the_block_of_an_old_job_leaves_the_new_one():
    with jaxina.init():
        jaxina.shutdown()
        new = jaxina.init()
    assert job.current() is new


def test_shutdown_does_not_start_jax_s_backend(monkeypatch):
    """In a job of several processes, that would wait for the others."""
    monkeypatch.setattr(joining, "backend_started", lambda: False)
    monkeypatch.setattr(jax, "live_arrays", lambda: pytest.fail("this starts the backend"))
    jaxina.init()
    jaxina.shutdown()


def test_an_interrupted_shutdown_still_stops_all(monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(joining, "backend_started", lambda: True)
    monkeypatch.setattr(jax, "effects_barrier", interrupted)
    jaxina.init()
    with pytest.raises(KeyboardInterrupt):
        jaxina.shutdown()
    assert job.current() is None and not _native.running()
    assert jaxina.init() is job.current()
    monkeypatch.undo()


def test_an_init_that_fails_late_leaves_no_job(monkeypatch):
    def refuse(*_):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(_watching, "start", refuse)
        with pytest.raises(RuntimeError, match="new thread"):
            jaxina.init()
    assert job.current() is None and not _native.running()
    assert jaxina.init() is job.current()


def test_no_switch_at_the_address():
    with socket.create_server(("127.0.0.1", 0)) as unused:
        address = f"127.0.0.1:{unused.getsockname()[1]}"
    with pytest.raises(SwitchUnreachableError, match=f"{address}.*jaxina switch"):
        jaxina.init("udp", switch=address, join_timeout=1)
    assert job.current() is None


def test_a_failed_callback_keeps_shutdown_from_waiting_for_nothing_else(monkeypatch):
    waited = []

    class Result:
        def is_deleted(self):
            return False

        def block_until_ready(self):
            waited.append(self)
            raise RuntimeError("this one fails as well")

    def fails():
        raise RuntimeError("a callback failed")

    results = [Result(), Result()]
    monkeypatch.setattr(joining, "backend_started", lambda: True)
    monkeypatch.setattr(jax, "effects_barrier", fails)
    monkeypatch.setattr(jax, "live_arrays", lambda: results)
    jaxina.init()
    jaxina.shutdown()
    assert waited == results
