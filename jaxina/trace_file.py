"""Timelines as files for ui.perfetto.dev: one for each process, and one of several."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

_HEAD = b'{"displayTimeUnit":"ns","traceEvents":[\n'
_TAIL = b"\n]}\n"


def of_process(path: str | os.PathLike[str], process: int, processes: int) -> Path:
    """Where a process writes its part: `path` itself if it is the only one, else t.0.json and so on for t.json."""
    whole = Path(path)
    return whole if processes == 1 else whole.with_name(f"{whole.stem}.{process}{whole.suffix}")


def write(path: Path, events: bytes) -> None:
    """`events`: JSON objects in Chrome's trace event format, with commas between. Raises OSError."""
    with path.open("wb") as file:
        file.writelines((_HEAD, events, _TAIL))


def merge(parts: Iterable[Path], path: Path) -> int:
    """Makes one file of those parts that exist, which `write` wrote; the number of them. Raises OSError."""
    found = 0
    with path.open("wb") as whole:
        whole.write(_HEAD)
        for part in parts:
            if not part.exists():
                continue
            if found:
                whole.write(b",\n")
            with part.open("rb") as file:
                file.seek(len(_HEAD))
                shutil.copyfileobj(file, whole)
            whole.seek(-len(_TAIL), os.SEEK_CUR)
            found += 1
        whole.write(_TAIL)
    return found
