"""Fixtures that several files of tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import jaxina


@pytest.fixture(scope="module")
def job() -> Iterator[jaxina.Job]:
    """A job that carries only what is inside `jaxina.collectives(True)`, so that tests can compare with XLA."""
    with jaxina.init(aggregator="embedded", join_timeout=20, timeout=30) as running, jaxina.collectives(False):
        yield running
