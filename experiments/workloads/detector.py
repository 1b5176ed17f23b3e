"""A single-shot detector of digits on photographs."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from experiments.data import digits, photographs
from experiments.workloads.base import Batch, Lengths, Workload, adam, in_batches

_IMAGE, _CELL, _DIGIT = 48, 8, 28
_CELLS = _IMAGE // _CELL
DIGITS = 2  # in every image
_OVERLAP = 0.5  # a hit needs this intersection over union of box and prediction


class SingleShot(nnx.Module):
    """Three convolutions of stride two, one of stride one, and a head that answers for each cell of 8 x 8 pixels."""

    def __init__(self, width: int, rngs: nnx.Rngs) -> None:
        channels = (1, width, 2 * width, 4 * width)
        self.convolutions = nnx.List(
            [nnx.Conv(a, b, (3, 3), strides=(2, 2), rngs=rngs) for a, b in itertools.pairwise(channels)]
        )
        self.context = nnx.Conv(channels[-1], channels[-1], (5, 5), rngs=rngs)
        self.head = nnx.Conv(channels[-1], 13, (1, 1), rngs=rngs)

    def __call__(self, images: jax.Array) -> jax.Array:
        """Maps float32 [n, 48, 48, 1] to [n, 6, 6, 13], which is for each cell: whether a digit's centre is in it (1),
        where in the cell (2), and which digit (10)."""
        x = images
        for convolution in self.convolutions:
            x = nnx.relu(convolution(x))
        return self.head(nnx.relu(self.context(x)))


class Detector(Workload):
    cousin_of = "SSD on COCO 2017"
    differs = (
        "Two MNIST digits composed on pieces of scikit-learn's two photographs: 48 x 48 pixels, grey, boxes of one "
        "size; one scale and one anchor; mean average precision at an overlap of one half."
    )
    metric = "mean average precision"
    lengths = Lengths(small=400, large=3000)

    def __init__(self, size: str = "small") -> None:
        super().__init__(size)
        self.rows = digits.load()
        self.batch_size = 32

    def network(self, rngs: nnx.Rngs) -> nnx.Module:
        return SingleShot(32 if self.large else 8, rngs)

    def loss(self, network, batch):
        answer, truth = network(batch["images"]), batch["cells"]
        here = truth[..., 0]
        presence = optax.sigmoid_binary_cross_entropy(answer[..., 0], here)
        offset = ((answer[..., 1:3] - truth[..., 1:3]) ** 2).sum(-1)
        label = optax.softmax_cross_entropy_with_integer_labels(answer[..., 3:], truth[..., 3].astype(jnp.int32))
        return (presence + here * (offset + label)).sum((1, 2)).mean()

    def batches(self, seed):
        rng = np.random.default_rng(seed)
        while True:
            yield composed(self.rows.train, self.batch_size, rng)

    def held_out(self, split):
        return in_batches(composed(getattr(self.rows, split), 512, np.random.default_rng(2021)), 256)

    def predict(self, network, batch):
        return jnp.concatenate([network(batch["images"]), batch["cells"]], axis=-1)

    def score(self, predictions):
        answers, cells = np.split(np.concatenate(predictions), [13], axis=-1)
        return mean_average_precision(answers, cells)

    def optimizer(self, steps, momentum):
        return adam(1e-2, steps, momentum)


def composed(source: Batch, count: int, rng: np.random.Generator) -> Batch:
    """Composes digits on pieces of photographs.

    Returns:
      "images", float32 [count, 48, 48, 1], and "cells", float32 [count, 6, 6, 4]. A cell holds: 1 if a digit's centre
      is in it; the centre's place in the cell (down, right; 0 to 1); the digit. A cell has the centre of at most one
      digit, but digits may overlap.
    """
    pictures = photographs.load()
    images = np.empty((count, _IMAGE, _IMAGE, 1), np.float32)
    cells = np.zeros((count, _CELLS, _CELLS, 4), np.float32)
    for image, cell in zip(images, cells, strict=True):
        picture = pictures[rng.integers(len(pictures))]
        top, left = (rng.integers(length - _IMAGE + 1) for length in picture.shape)
        image[..., 0] = 0.6 * picture[top : top + _IMAGE, left : left + _IMAGE]
        for _ in range(DIGITS):
            number = rng.integers(len(source["labels"]))
            top, left = rng.integers(_IMAGE - _DIGIT + 1, size=2)
            centre = np.array([top, left]) + _DIGIT / 2
            row, column = (centre // _CELL).astype(int)
            if cell[row, column, 0]:
                continue
            place = image[top : top + _DIGIT, left : left + _DIGIT]
            np.maximum(place, source["images"][number], out=place)
            cell[row, column] = 1, *(centre / _CELL % 1), source["labels"][number]
    return {"images": images, "cells": cells}


def mean_average_precision(answers: np.ndarray, cells: np.ndarray) -> float:
    """Returns the area under the curve of precision against recall, averaged over the ten digits.

    A prediction is a hit if it names the box's digit, overlaps the box by half, and no surer prediction has hit the
    box.
    """
    corner = np.stack(np.meshgrid(np.arange(_CELLS), np.arange(_CELLS), indexing="ij"), axis=-1)
    found, truth = (_CELL * (corner + values[..., 1:3]) for values in (answers, cells))
    logits = answers[..., 3:]
    sure = (
        logits
        - np.log(np.exp(logits - logits.max(-1, keepdims=True)).sum(-1, keepdims=True))
        - logits.max(-1, keepdims=True)
        - np.logaddexp(0, -answers[..., :1])
    )
    present = cells[..., 0] > 0
    return float(
        np.mean(
            [
                _average_precision(sure[..., digit], found, truth, present & (cells[..., 3] == digit))
                for digit in range(10)
            ]
        )
    )


def _average_precision(sure: np.ndarray, found: np.ndarray, truth: np.ndarray, wanted: np.ndarray) -> float:
    boxes = int(wanted.sum())
    taken: set[tuple[int, ...]] = set()
    hits = []
    order = np.argsort(-sure, axis=None)[: 8 * boxes]
    for image, row, column in zip(*np.unravel_index(order, sure.shape), strict=True):
        hit = None
        for box in np.argwhere(wanted[image]):
            key = (image, *box)
            if key not in taken and _overlap(found[image, row, column], truth[image, *box]) >= _OVERLAP:
                hit = key
        hits.append(hit is not None)
        if hit is not None:
            taken.add(hit)
    right = np.cumsum(hits)
    precision = right / np.arange(1, len(hits) + 1)
    envelope = np.maximum.accumulate(precision[::-1])[::-1]
    return float((envelope * hits).sum() / boxes)


def _overlap(first: np.ndarray, second: np.ndarray) -> float:
    """Returns the intersection over union of two squares of a digit's size, given by their centres."""
    common = float(np.prod(np.maximum(0, _DIGIT - np.abs(first - second))))
    return common / (2 * _DIGIT**2 - common)
