"""What tests share that run at the same time (scripts/test_python.sh)."""

import fcntl
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def only_testbed() -> Iterator[None]:
    """For tests that use the testbed: a host has one, so only one of them runs at a time."""
    with (Path(tempfile.gettempdir()) / "jaxina-only-testbed.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
