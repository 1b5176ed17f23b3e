"""Divides the work of a study among processes of one machine: each works on what no other one has claimed."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

from experiments.records import Identified

_FILE = ".claims"


class Claims:
    """What this process works on, as long as the context lasts. Claims end with their process, also if it is killed.

    A claim is a lock on one byte of a file that stays empty. The setting's id says which byte.

    Args:
      folder: where the file is.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = (folder / _FILE).open("a")

    def __enter__(self) -> Claims:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()  # which ends all of this process's claims in the folder

    @contextlib.contextmanager
    def taken(self, setting: Identified, wait: bool) -> Iterator[bool]:
        """Claims a setting while the context lasts.

        Args:
          setting: what this process wants to work on.
          wait: whether to wait for a process that has claimed it.

        Yields:
          Whether this process has it now. Always true with `wait`.
        """
        byte = int(setting.id, 16) >> 2  # an offset has 63 bits
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB), 1, byte)
        except BlockingIOError:
            yield False
            return
        try:
            yield True
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, byte)
