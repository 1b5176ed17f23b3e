"""What `jaxina info --last` shows: process 0 leaves a record of its run in the user's cache
folder.
"""

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
    folder = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(folder) / "jaxina" / "last_run.json"


def write(aggregator: str, processes: int, statistics: dict[str, int], report: Report) -> None:
    """A record that cannot be written is no reason to fail a run; it is logged."""
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
    """The last record; None if there is none."""
    try:
        return json.loads(path().read_text())
    except (OSError, ValueError):
        return None
