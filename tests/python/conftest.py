"""Fixtures that several files of tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import jaxina


@pytest.fixture(scope="module")
def job() -> Iterator[jaxina.Job]:
    """A job in which only what stands in `jaxina.collectives(True)` is carried, so that both can be compared."""
    with jaxina.init(aggregator="embedded", join_timeout=20, timeout=30) as running, jaxina.collectives(False):
        yield running
