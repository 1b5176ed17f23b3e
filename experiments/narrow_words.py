"""Measures how far sums of 8- and 16-bit words are off the exact sum.

    python -m experiments.narrow_words          # writes results/narrow_words.json, .md and .png

Three ways to fit the sum of n words into words of the same width are compared:

* head-room: each worker leaves ceil(log2 n) bits to the sum (the compressor `blockfp:8`);
* fixed: workers use all bits, and the sum is shifted by ceil(log2 n) bits (`jaxina.numerics`);
* adaptive: as fixed, but each block's sum is shifted by as few bits as its largest number allows. That costs a byte for
  each block of the result, and an aggregator that looks at a whole block before it answers.

The numbers are normal, from Student's t distribution with 2 degrees of freedom (heavy tails), and real gradients of
three workloads, early and late in training.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.progress import track

from experiments import documents, effect_of_f, workloads
from experiments.records import RESULTS
from experiments.worker_gradients import collect
from jaxina import numerics

WORKERS = (2, 4, 8, 64)
BITS = (8, 16)
WORKLOADS = ("ncf", "lstm", "vgg")
EARLY = 10
ELEMENTS = 2**17
BLOCK = numerics.DEFAULT_BLOCK_SIZE
WAYS = ("head-room", "fixed", "adaptive", "fixed, stochastic")
FILE = RESULTS / "narrow_words.json"


@dataclasses.dataclass(frozen=True)
class Point:
    """The errors of one sum.

    Attributes:
      rms: root of the mean squared error, divided by that of the exact sum.
      largest: the largest error of any element, divided by the largest exact sum.
      of_bound: the largest error of any element as a share of `numerics.error_bound`. None where it does not hold.
      shift: by how many bits the sums were shifted, the mean over blocks. None with head-room.
      spread: how much the exact sum would vary with other batches: its standard deviation as estimated from the n
        arrays, relative as `rms`.
    """

    source: str
    bits: int
    workers: int
    way: str
    rms: float
    largest: float
    of_bound: float | None
    shift: float | None
    spread: float


def sources() -> dict[str, npt.NDArray[np.float32]]:
    """Returns what 64 workers sum, by name: float32[64, elements]."""
    rng = np.random.default_rng(0)
    shape = (max(WORKERS), ELEMENTS)
    found = {
        "normal": rng.standard_normal(shape).astype(np.float32),
        "Student t": rng.standard_t(2, shape).astype(np.float32),
    }
    for name in WORKLOADS:
        taken = collect(name, max(WORKERS), _steps(name))
        found |= {f"{name}, step {step}": taken[step] for step in _steps(name)}
    return found


def _steps(workload: str) -> list[int]:
    """Returns before which steps gradients are taken: one early and the last."""
    return [EARLY, workloads.steps(workload, "small")]


def adaptive(
    x: npt.NDArray[np.float32], bits: int, block: int = BLOCK
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Sums x [n, d] with the least shift for each block: returns float64[d] and the blocks' shifts."""
    exponents = np.max([numerics.block_exponents(row, block) for row in x], axis=0)
    total = np.sum([numerics.quantize(row, exponents, len(x), block, bits=bits) for row in x], axis=0)
    limit = numerics.quantized_limit(len(x), bits)
    padded = np.zeros(exponents.size * block)
    padded[: total.size] = total
    rows = padded.reshape(-1, block)
    shift = np.zeros(len(rows), np.int64)
    for _ in range((len(x) - 1).bit_length()):
        shift += np.abs(_shifted(rows, shift)).max(axis=1) > limit
    power = shift - numerics.scale_exponent(exponents, len(x), bits)
    return np.ldexp(_shifted(rows, shift), power[:, None]).reshape(-1)[: total.size], shift


def _shifted(rows: npt.NDArray[np.float64], shift: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    return np.rint(np.ldexp(rows, -shift[:, None]))  # exact but for the rounding, with ties to even, as `round_shift`


def measure(source: str, x: npt.NDArray[np.float32], bits: int, way: str, block: int = BLOCK) -> Point:
    """Sums x [n, d] in one of the `WAYS` and compares with the exact sum."""
    n, exact = len(x), x.astype(np.float64).sum(axis=0)
    bound, shift = None, float((n - 1).bit_length())
    if way == "head-room":
        y, shift = effect_of_f.summed(x, bits, block)[0], None
    elif way == "adaptive":
        y, shifts = adaptive(x, bits, block)
        shift = float(shifts.mean())
    else:
        stochastic = way != "fixed"
        y = numerics.all_reduce_reference(x, block, bits=bits, seed=0 if stochastic else None).astype(np.float64)
        exponents = np.max([numerics.block_exponents(row, block) for row in x], axis=0)
        bound = np.repeat(numerics.error_bound(exponents, n, bits=bits, stochastic=stochastic), block)[: exact.size]
    error = np.abs(y - exact)
    return Point(
        source,
        bits,
        n,
        way,
        float(np.sqrt(np.mean(error**2) / np.mean(exact**2))),
        float(error.max() / np.abs(exact).max()),
        None if bound is None else float((error / bound).max()),
        shift,
        float(np.sqrt(n * np.mean(x.var(axis=0, ddof=1, dtype=np.float64)) / np.mean(exact**2))),
    )


def table(points: list[Point]) -> str:
    """Returns the relative errors as Markdown."""
    lines = []
    for bits in BITS:
        lines += [
            f"## {bits} bits",
            "",
            "| numbers | n | " + " | ".join(WAYS) + " | fixed / adaptive | bits that adaptive shifts | own spread |",
            "|---|---:|" + len(WAYS) * "---:|" + "---:|---:|---:|",
        ]
        for source in dict.fromkeys(p.source for p in points):
            for n in WORKERS:
                of = {p.way: p for p in points if (p.source, p.bits, p.workers) == (source, bits, n)}
                cells = [f"{_number(of[way].rms)}, {_number(of[way].largest)}" for way in WAYS]
                ratio, shift = of["fixed"].rms / of["adaptive"].rms, of["adaptive"].shift
                cells += [f"{ratio:.1f}", f"{shift:.2f}", _number(of["fixed"].spread)]
                lines.append(f"| {source} | {n} | " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join([*lines, _NOTE])


def ratios(points: list[Point]) -> str:
    """Returns the smallest and the largest ratios of two ways' errors with 8 bits, over the sources, as Markdown."""

    def span(n: int, of: Callable[[dict[str, Point]], float], real: bool = False) -> str:
        sums = [p for p in points if (p.bits, p.workers) == (8, n) and (", step " in p.source or not real)]
        found = [of({p.way: p for p in sums if p.source == source}) for source in {p.source for p in sums}]
        return f"{min(found):.2g} to {max(found):.2g}"

    lines = [
        "## Ratios with 8 bits, the smallest and the largest",
        "",
        "| n | head-room / fixed | fixed / adaptive | stochastic / fixed | fixed / own spread, gradients |",
        "|---:|---:|---:|---:|---:|",
    ]
    for n in WORKERS:
        cells = [
            span(n, lambda of: of["head-room"].rms / of["fixed"].rms),
            span(n, lambda of: of["fixed"].rms / of["adaptive"].rms),
            span(n, lambda of: of["fixed, stochastic"].rms / of["fixed"].rms),
            span(n, lambda of: of["fixed"].rms / of["fixed"].spread, real=True),
        ]
        lines.append(f"| {n} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", ""])


def _number(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 0.995 else f"{100 * share:.0f} %"


_NOTE = """\
In the cells of the four ways: the root of the mean squared error as a share of that of the exact sums; then the largest
error as a share of the largest exact sum. *Fixed / adaptive*: the ratio of the first numbers. *Bits that adaptive
shifts*: the mean over blocks; fixed shifts by log2 n. *Own spread*: by how much the exact sum would vary with other
batches, as the first number; it is estimated from the spread of the n arrays.
"""


def plot(points: list[Point], file) -> None:
    import matplotlib.pyplot as plt

    from experiments import style

    shown = [s for s in dict.fromkeys(p.source for p in points) if not s.endswith(f"step {EARLY}")]
    figure, panels = plt.subplots(
        2, len(shown), figsize=(2.6 * len(shown), 6), sharex=True, sharey="row", layout="constrained", squeeze=False
    )
    for (upper, lower), source in zip(panels.T, shown, strict=True):
        for number, way in enumerate(WAYS):
            ours = [p for p in points if (p.source, p.bits, p.way) == (source, 8, way)]
            for axes, values in ((upper, [p.rms for p in ours]), (lower, [p.largest for p in ours])):
                axes.plot([p.workers for p in ours], values, label=way, **style.line(number))
        upper.set(title=source, xscale="log", yscale="log")
        lower.set(xlabel="workers n", yscale="log")
        lower.set_xticks(WORKERS, [str(n) for n in WORKERS])
        lower.minorticks_off()
        for axes in (upper, lower):
            axes.grid(alpha=0.3)
    panels[0][0].set_ylabel("RMS error / RMS of the sum")
    panels[1][0].set_ylabel("largest error / largest sum")
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=9)
    figure.suptitle(f"Sums of n arrays with words of 8 bits, blocks of {BLOCK}")
    figure.savefig(file, dpi=120)
    plt.close(figure)


def settings() -> dict[str, Any]:
    """Returns what a document of this study is made of."""
    return {
        "block": BLOCK,
        "workers": list(WORKERS),
        "bits": list(BITS),
        "elements": ELEMENTS,
        "steps": {name: _steps(name) for name in WORKLOADS},
        "revisions": documents.revisions(WORKLOADS),
    }


def main() -> None:
    making = documents.Making()
    cases = [
        (source, x[:n], bits, way) for source, x in sources().items() for n in WORKERS for bits in BITS for way in WAYS
    ]
    points = [measure(*case) for case in track(cases, description="sums")]
    document = {**settings(), "points": [dataclasses.asdict(p) for p in points], **making.ended()}
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(json.dumps(document, indent=1) + "\n")
    FILE.with_suffix(".md").write_text(
        "# narrow_words\n\nWritten by `python -m experiments.narrow_words`.\n\n" + ratios(points) + table(points)
    )
    plot(points, FILE.with_suffix(".png"))
    print(f"largest error: {max(p.of_bound for p in points if p.of_bound is not None):.3f} of the bound")


if __name__ == "__main__":
    main()
