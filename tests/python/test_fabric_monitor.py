"""What the scheduler learns of the links."""

from __future__ import annotations

import json

import pytest

from jaxina.errors import InvalidArgumentError
from jaxina.fabric.monitor import RatesFile, estimate, written


def test_rates_are_known_a_little_after_they_change(tmp_path):
    file = tmp_path / "rates"
    monitor = RatesFile(file, lag=0.2)
    assert monitor.changes(0.0) == {}, "there is no file yet"
    with file.open("w") as out:
        out.write(written(10.0, {"worker-0": (1, 2), "worker-1": (3, 4)}) + written(15.0, {"worker-0": (5, 6)})[:-5])
        out.flush()
        assert monitor.changes(10.1) == {}
        assert monitor.changes(10.2) == {"worker-0": (1, 2), "worker-1": (3, 4)}
        assert monitor.changes(20.0) == {}, "the line is not whole yet"
        out.write(written(15.0, {"worker-0": (5, 6)})[-5:])
        out.flush()
        assert monitor.changes(20.0) == {"worker-0": (5, 6)}
        out.write(json.dumps({"at": 1}) + "\n")
    with pytest.raises(InvalidArgumentError, match="a line that is no rates"):
        monitor.changes(30.0)


def test_a_link_is_estimated_by_what_its_transfers_had():
    assert estimate(1000, 2000, planned=1000, measured=500) == 500, "slower than planned"
    assert estimate(1000, 2000, planned=1000, measured=990) == 1101, "as planned, so a little more is tried"
    assert estimate(1990, 2000, planned=1000, measured=990) == 2000, "never more than the link has"
    assert estimate(1000, 2000, planned=1000, measured=0.0) == 1
