"""Results that are one JSON document each, such as what a measurement found.

A document says what it was made of (its settings), and how it was made: for how many seconds, when that ended, with
which code and on which machine.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from experiments import records, workloads


class Making:
    """The making of a document. Creating this is its start."""

    def __init__(self) -> None:
        records.provenance()  # of the code that is loaded now
        self._start = time.perf_counter()

    def ended(self) -> dict[str, Any]:
        """Returns what a document says of how it was made: "seconds", and what `records.ended` has."""
        return {"seconds": round(time.perf_counter() - self._start, 1), **records.ended()}


def read(file: Path) -> dict[str, Any] | None:
    """Returns a document, or None if there is none. One that was cut short does not count."""
    try:
        document = json.loads(file.read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    return document if isinstance(document, dict) else None


def is_current(document: Mapping[str, Any], settings: Mapping[str, Any]) -> bool:
    """Returns whether a document has these settings. One that lacks a setting is out of date."""
    return all(name in document and document[name] == value for name, value in settings.items())


def revisions(names: Collection[str]) -> dict[str, int]:
    """Returns the revisions of workloads. A result of an older one is out of date."""
    return {name: workloads.kind(name).revision for name in names}
