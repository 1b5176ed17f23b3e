"""A pytest plugin for JAX's own test files. It records each outcome, and with --jaxina it switches jaxina on.

scripts/run_jax_suite.py uses it and puts this folder on PYTHONPATH. The tests themselves are not changed.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--outcomes", type=Path, required=True, help="file that gets one JSON line per test")
    parser.addoption("--jaxina", action="store_true", help="switch jaxina on for the whole process")


@pytest.hookimpl(tryfirst=True)  # before the test modules are imported
def pytest_sessionstart(session: pytest.Session) -> None:
    file, jaxina_on = session.config.getoption("outcomes"), session.config.getoption("jaxina")
    if rank := os.environ.get("JAXINA_RANK"):  # this is one of the processes of a job
        file = file.with_name(f"{file.name}.{rank}")
        _parse_flags(int(os.environ["JAXINA_PROCESSES"]))
        if not jaxina_on:
            _join_processes()
    outcomes = file.open("w", buffering=1)  # buffered by lines, so that a crash loses no line
    recorder = _Recorder(outcomes)
    session.config.pluginmanager.register(recorder)
    if jaxina_on:
        import jaxina

        recorder.job = jaxina.init(aggregator="embedded", join_timeout=30, timeout=60)


def _parse_flags(processes: int) -> None:
    """Parses absl's flags as test_multiprocess.main() does, which pytest does not call."""
    from absl import flags

    importlib.import_module("jax._src.test_multiprocess")  # defines the flags
    flags.FLAGS([sys.argv[0], f"--num_processes={processes}"])


def _join_processes() -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from examples.shared.processes import join_processes

    join_processes()


class _Recorder:
    def __init__(self, outcomes):
        self.outcomes = outcomes
        self.job = None
        self.worst: dict[str, pytest.TestReport] = {}

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.outcomes.write(json.dumps({"test": nodeid, "outcome": "started"}) + "\n")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            self.worst[report.nodeid] = report

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        report = self.worst.pop(nodeid)
        line = {"test": nodeid, "outcome": report.outcome, "seconds": round(report.duration, 3)}
        if report.outcome == "failed":
            line["error"] = report.longreprtext[-2000:]
        if self.job:
            line["collectives"] = self.job.statistics()["collectives"]
        self.outcomes.write(json.dumps(line) + "\n")
