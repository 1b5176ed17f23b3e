"""Fixtures that several files of tests share."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

import jaxina

# A slow machine is no fault of a test.
hypothesis.settings.register_profile("jaxina", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("jaxina")

# A shell that starts pytest in the background ignores SIGINT for it. The programs that tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module")
def job() -> Iterator[jaxina.Job]:
    """A job that carries only what is inside `jaxina.collectives(True)`, so that tests can compare with XLA."""
    with jaxina.init(aggregator="embedded", join_timeout=20, timeout=30) as running, jaxina.collectives(False):
        yield running


@pytest.fixture
def only_testbed() -> Iterator[None]:
    """For tests that use the testbed: a host has one, so only one of them runs at a time (scripts/test_python.sh)."""
    with (Path(tempfile.gettempdir()) / "jaxina-only-testbed.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture
def fabric(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Makes jobs of `jaxina.fabric`, and ends them."""
    from fabric_jobs import Fabric

    with contextlib.ExitStack() as stack:
        yield lambda **settings: Fabric(stack, tmp_path, **settings)


@pytest.fixture
def run_job(tmp_path: Path) -> Callable[..., Any]:
    """Runs a program's text in launched processes: `launched_jobs.launch`, in this test's folder."""
    from launched_jobs import launch

    return functools.partial(launch, tmp_path)


@pytest.fixture
def job_switch(tmp_path: Path) -> Iterator[Any]:
    """A switch for such a job: `launched_jobs.loopback_switch`."""
    from launched_jobs import loopback_switch

    with loopback_switch(tmp_path) as started:
        yield started
