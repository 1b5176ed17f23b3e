"""Timelines as files for ui.perfetto.dev: one file per process, and one file made of several."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

_HEAD = b'{"displayTimeUnit":"ns","traceEvents":[\n'
_TAIL = b"\n]}\n"


def of_process(path: str | os.PathLike[str], process: int, processes: int) -> Path:
    """The file to which a process writes its timeline.

    It is `path` itself if there is one process. Of several processes, process 0 writes t.0.json if `path` is t.json.
    """
    whole = Path(path)
    return whole if processes == 1 else whole.with_name(f"{whole.stem}.{process}{whole.suffix}")


def write(path: Path, events: bytes) -> None:
    """Writes a timeline.

    Args:
      path: the file.
      events: JSON objects in Chrome's trace event format, with commas between them.

    Raises:
      OSError: the file cannot be written.
    """
    with path.open("wb") as file:
        file.writelines((_HEAD, events, _TAIL))


def merge(parts: Iterable[Path], path: Path) -> int:
    """Makes one file of several that `write` wrote. Left out are parts that do not exist or that lack their end.

    A process that was killed while it wrote leaves such a part.

    Returns:
      How many parts are in the file.

    Raises:
      OSError: a file cannot be read or written.
    """
    found = 0
    with path.open("wb") as whole:
        whole.write(_HEAD)
        for part in parts:
            if not part.exists() or not _is_whole(part):
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


def _is_whole(path: Path) -> bool:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - len(_TAIL)))
        return size >= len(_HEAD) + len(_TAIL) and file.read() == _TAIL
