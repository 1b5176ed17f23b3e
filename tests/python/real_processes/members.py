"""What a process needs to be a member of a job without JAX."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import time
from typing import Any


class FileStore:
    """A key-value store in a folder, for the rendezvous. Real programs use the store of jax.distributed."""

    def __init__(self, folder: pathlib.Path):
        self._folder = folder

    def _path(self, key: str) -> pathlib.Path:
        return self._folder / key.replace("/", "%")

    def set(self, key: str, value: str) -> None:
        partial = self._path(f"{key}.{os.getpid()}")
        partial.write_text(value)
        partial.rename(self._path(key))

    def get(self, key: str, timeout: float) -> str | None:
        deadline = time.monotonic() + timeout
        while (value := self.look(key)) is None and time.monotonic() < deadline:
            time.sleep(0.002)
        return value

    def look(self, key: str) -> str | None:
        try:
            return self._path(key).read_text()
        except FileNotFoundError:
            return None


@dataclasses.dataclass
class OneDeviceEach:
    """Device d belongs to process d."""

    process: int
    processes: int

    def owners(self, devices: Any) -> list[int]:
        return list(devices)

    def only_devices(self) -> list[int]:
        return list(range(self.processes))
