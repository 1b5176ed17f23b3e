"""The record of the last run, which process 0 writes to the user's cache folder. ``jaxina info --last`` shows it."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import logging
import os
from pathlib import Path
from typing import Any

from jaxina._report import Report

_log = logging.getLogger(__name__)


def path() -> Path:
    """The file of the record."""
    folder = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(folder) / "jaxina" / "last_run.json"


def write(aggregator: str, processes: int, statistics: dict[str, int], report: Report) -> None:
    """Writes the record of this run. If that fails, it is only logged: it is no reason to fail the run."""
    record = {
        "when": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        "aggregator": aggregator,
        "processes": processes,
        "statistics": statistics,
        "programs": [dataclasses.asdict(program) for program in report.programs],
    }
    partial = path().with_suffix(f".{os.getpid()}")
    try:
        path().parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(json.dumps(record))
        partial.replace(path())
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        _log.info("no record for `jaxina info --last`: %s", error)


def read() -> dict[str, Any] | None:
    """Reads the record; None if there is none."""
    try:
        return json.loads(path().read_text())
    except (OSError, ValueError):
        return None
