"""Studies the scale f: sums real gradients with words of 5 to 32 bits, in blocks of 32 to 4096 elements.

    python -m experiments.effect_of_f          # writes results/effect_of_f.json and .png

For each workload, the study takes the gradients of eight workers early in training. It sums them in block fixed point
and compares with the exact sum. It reports the relative error, and the largest error as a share of theorem
1's bound n / f, which must not exceed 1. Another study shows where training breaks: `python -m experiments.convergence
--config experiments/configs/training_breaks.toml`.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.progress import track

from experiments import documents
from experiments.records import RESULTS
from experiments.worker_gradients import collect
from jaxina import numerics

WORKERS = 8
BITS = (5, 6, 8, 10, 12, 16, 20, 24, 28, 32)
BLOCKS = (32, 64, 128, 256, 512, 1024, 4096)
WORKLOADS = ("clickthrough", "ncf", "lstm", "masked_lm", "resnet")
STEP = 20
FILE = RESULTS / "effect_of_f.json"


@dataclasses.dataclass(frozen=True)
class Point:
    """The errors of one sum.

    Attributes:
      relative_error: Euclidean norm of the error, divided by the norm of the exact sum.
      of_bound: the largest |error| f / n of any element. By theorem 1 it is at most 1.
    """

    workload: str
    bits: int
    block: int
    relative_error: float
    of_bound: float


def summed(
    x: npt.NDArray[np.float32], bits: int, block: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Returns, for each element, the block fixed-point sum over the workers of x [n, d], and f.

    It does what `jaxina.compressors` does for words of any width. It computes in float64, where everything but the
    rounding to words is exact.

    Raises:
      ValueError: so few bits leave nothing for a word of each worker.
    """
    workers = len(x)
    exponents = np.max([numerics.block_exponents(row, block) for row in x], axis=0).astype(np.int32)
    above = np.repeat(exponents - 126, block)[: x.shape[1]]  # the exponent of the power of two above a block's values
    largest_word = (2 ** (bits - 1) - 1) // workers
    if largest_word < 1:
        raise ValueError(f"{bits} bits leave nothing for a word of each of {workers} workers")
    f = np.ldexp(min(2.0 ** (bits - 1 - (workers - 1).bit_length()), float(largest_word)), -above)
    return np.rint(x.astype(np.float64) * f).sum(axis=0) / f, f


def measure(workload: str, x: npt.NDArray[np.float32], bits: int, block: int) -> Point:
    exact = x.astype(np.float64).sum(axis=0)
    ours, f = summed(x, bits, block)
    error = np.abs(ours - exact)
    return Point(
        workload, bits, block, float(np.linalg.norm(error) / np.linalg.norm(exact)), float((error * f).max() / len(x))
    )


def plot(points: list[Point], file) -> None:
    import matplotlib.pyplot as plt

    from experiments import style

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for number, name in enumerate(WORKLOADS):
        ours = [p for p in points if p.workload == name]
        at_block = [p for p in ours if p.block == 256]
        left.plot([p.bits for p in at_block], [p.relative_error for p in at_block], label=name, **style.line(number))
        at_bits = [p for p in ours if p.bits == 8]
        right.plot([p.block for p in at_bits], [p.relative_error for p in at_bits], label=name, **style.line(number))
    left.axhline(2.0**-24, color="grey", linewidth=1)
    left.annotate("rounding of float32", (4, 2.0**-24), xytext=(0, 3), textcoords="offset points", color="grey")
    left.set(xlabel="bits of a word (blocks of 256)", ylabel="relative error of the sum", yscale="log", xticks=BITS)
    right.set(xlabel="block size k (8 bits)", ylabel="relative error of the sum", xscale="log", xticks=BLOCKS)
    right.set_xticks(BLOCKS, [str(k) for k in BLOCKS], minor=False)
    right.minorticks_off()
    right.set_ylim(bottom=0)
    for axes in (left, right):
        axes.grid(alpha=0.3)
    left.legend()
    figure.suptitle(f"Gradients of {WORKERS} workers summed in block fixed point")
    figure.savefig(file, dpi=120)
    plt.close(figure)


def settings() -> dict[str, Any]:
    """Returns what a document of this study is made of."""
    revisions = documents.revisions(WORKLOADS)
    return {"workers": WORKERS, "step": STEP, "bits": list(BITS), "blocks": list(BLOCKS), "revisions": revisions}


def main() -> None:
    making, points = documents.Making(), []
    for name in WORKLOADS:
        x = collect(name, WORKERS, (STEP,))[STEP]
        sums = [(bits, block) for block in BLOCKS for bits in BITS]
        points += [measure(name, x, bits, block) for bits, block in track(sums, description=name)]
    FILE.parent.mkdir(parents=True, exist_ok=True)
    document = {**settings(), "points": [dataclasses.asdict(p) for p in points], **making.ended()}
    FILE.write_text(json.dumps(document, indent=1, allow_nan=False) + "\n")
    plot(points, FILE.with_suffix(".png"))
    print(f"largest error: {max(p.of_bound for p in points):.3f} of theorem 1's bound")
    for name in WORKLOADS:
        errors = {p.block: p.relative_error for p in points if (p.workload, p.bits) == (name, 8)}
        ratio = errors[max(BLOCKS)] / errors[min(BLOCKS)]
        print(f"{name}, 8 bits: blocks of {max(BLOCKS)} instead of {min(BLOCKS)} make it {ratio:.1f} times as large")


if __name__ == "__main__":
    main()
