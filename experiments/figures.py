"""Draws the figures of the convergence study.

Compressors are shown by their differences from float32 with the same seed, since the curves themselves lie on each
other. Axes of differences are linear up to a small value and logarithmic beyond, so that one method that is far off
does not flatten the others.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterable, Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, SymmetricalLogLocator

from experiments import statistics
from experiments.recorded import (
    BASELINE,
    Case,
    Groups,
    Record,
    curve,
    differences,
    differences_over_steps,
    loss_differences,
    losses,
)
from experiments.style import SMALL_LABEL, BetweenLabels, line

# The compressors of each panel: so few that each has a colour of its own. One that two panels name stands where more of
# the study's others are.
PANELS = {
    "summed as block fixed point": ("int32", "int16", "int8", "int8:stochastic"),
    "quantized": ("qsgd", "qsgd:levels=256", "terngrad", "thc", "efsignsgd"),
    "sparse or of low rank": ("topk:ratio=0.1-ef", "topk-ef", "topk", "powersgd"),
    "narrow words, more": ("int8+ef", "int8:stochastic+ef", "int16:stochastic", "int16+ef", "int16:stochastic+ef"),
    "8 bits, summed otherwise": (
        "adaptive8",
        "adaptive8:stochastic",
        "blockfp:bits=8",
        "blockfp:bits=8:stochastic",
    ),
    "4 to 6 bits": (
        "blockfp:bits=4",
        "blockfp:bits=5",
        "blockfp:bits=6:block=4096",
        "blockfp:bits=6",
        "blockfp:bits=6:block=32",
    ),
    "7 bits and more": ("blockfp:bits=7", "blockfp:bits=8", "blockfp:bits=10", "blockfp:bits=12"),
    "other momentum": ("dgc", "dgc:momentum=0.0", "dgc:ratio=1.0:momentum=0.0"),
}
_COLUMNS = 5  # of panels beside each other, at most
_POINTS = 24  # of a curve of losses
KNOWN = [BASELINE, *dict.fromkeys(spec for specs in PANELS.values() for spec in specs)]


def name(spec: str) -> str:
    """Returns the compressor's name for readers."""
    bits = re.fullmatch(r"blockfp:bits=(\d+)(?::block=(\d+))?", spec)
    if bits:
        return f"{bits[1]} bits, head-room" + (f", blocks of {bits[2]}" if bits[2] else "")
    return {
        "none": "float32",
        "qsgd": "QSGD, 64 levels",
        "qsgd:levels=256": "QSGD, 256 levels",
        "terngrad": "TernGrad",
        "thc": "THC",
        "efsignsgd": "EF-signSGD",
        "topk:ratio=0.1-ef": "Top-10 %, no error feedback",
        "topk-ef": "Top-1 %, no error feedback",
        "topk": "Top-1 %, error feedback",
        "powersgd": "PowerSGD, rank 4",
        "dgc": "DGC, 1 %",
        "dgc:momentum=0.0": "Top-1 %, error feedback, no momentum",
        "dgc:ratio=1.0:momentum=0.0": "float32, no momentum",
        "int8:stochastic": "int8, stochastic",
        "int8+ef": "int8, error feedback",
        "int8:stochastic+ef": "int8, stochastic, error feedback",
        "int16:stochastic": "int16, stochastic",
        "int16+ef": "int16, error feedback",
        "int16:stochastic+ef": "int16, stochastic, error feedback",
        "adaptive8": "8 bits, adaptive shift",
        "adaptive8:stochastic": "8 bits, adaptive shift, stochastic",
        "blockfp:bits=8:stochastic": "8 bits, head-room, stochastic",
    }.get(spec, spec)


def metric_over_steps(case: Case, by_compressor: dict[str, list[Record]], margin: float) -> Figure:
    """Draws float32's metric over the steps, and the compressors' differences from it, seed by seed.

    Each kind of compressor has a panel. Lines are means; bands reach from the smallest to the largest seed. The unit of
    differences is the margin within which a method counts as equal, which is shaded. Up is better.
    """
    outcome = next(iter(by_compressor.values()))[0]["outcome"]
    baseline = by_compressor[BASELINE]
    kinds = _panels(by_compressor) | {"others": [spec for spec in ordered(by_compressor) if spec not in KNOWN]}
    kinds = {title: specs for title, specs in kinds.items() if specs}
    figure, (panels,) = plt.subplots(
        1, 1 + len(kinds), figsize=(3.7 * (1 + len(kinds)), 4.6), layout="constrained", squeeze=False
    )
    _banded(panels[0], name(BASELINE), *curve(baseline), line(0))
    panels[0].set(title="float32", ylabel=outcome["metric"])
    unit = margin if outcome["higher_is_better"] else -margin
    for axes, (title, specs) in zip(panels[1:], kinds.items(), strict=True):
        if axes is not panels[1]:
            axes.sharey(panels[1])
        for number, spec in enumerate(specs):
            at, samples = differences_over_steps(by_compressor[spec], baseline)
            away = [np.array(sample) / unit for sample in samples]
            mean, low, high = (np.array([of(sample) for sample in away]) for of in (np.mean, np.min, np.max))
            _banded(axes, name(spec), at, mean, low, high, line(1 + number))
        axes.set(title=title)
        axes.axhspan(-1, 1, color="grey", alpha=0.2, linewidth=0)
        _symmetric_log(axes, "y", 1)
    panels[1].set_ylabel(f"minus float32, margins of {margin:g}; up is better")
    for axes in panels:
        axes.set_xlabel("step")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.15))
    figure.suptitle(f"{case}, {_seeds(by_compressor)}: mean, smallest and largest")
    return figure


def _bands_and_columns(panels: int) -> tuple[int, int]:
    """Returns in how many bands of how many columns so many panels stand, with few places left empty."""
    bands = math.ceil(panels / _COLUMNS)
    return bands, math.ceil(panels / bands)


def block_fixed_point(groups: Groups) -> Figure:
    """The paper's figures 2 and 11: training loss in block fixed point beside that in float32."""
    bands, columns = _bands_and_columns(len(groups))
    figure, rows = plt.subplots(
        2 * bands, columns, figsize=(max(3.4 * columns, 7), 5.6 * bands), layout="constrained", squeeze=False
    )
    specs = ("int32", "int16", "int8", "int8:stochastic")
    places = [
        (rows[2 * band][column], rows[2 * band + 1][column]) for band in range(bands) for column in range(columns)
    ]
    for axes in (axes for pair in places[len(groups) :] for axes in pair):
        axes.set_visible(False)
    for (upper, lower), (case, by_compressor) in zip(places, groups.items(), strict=False):
        lower.sharex(upper)
        if lower is not rows[1][0]:
            lower.sharey(rows[1][0])
        kept = [run for run in by_compressor[BASELINE] if not run["outcome"]["diverged"]]
        steps, _ = losses(kept[0], _POINTS)
        ours = np.array([losses(run, _POINTS)[1] for run in kept])
        _banded(upper, name(BASELINE), steps, ours.mean(axis=0), ours.min(axis=0), ours.max(axis=0), line(0))
        for number, spec in enumerate(specs):
            if spec in by_compressor:
                percent = 100 * loss_differences(by_compressor[spec], by_compressor[BASELINE], _POINTS)
                if len(percent):
                    edges = percent.min(axis=0), percent.max(axis=0)
                    _banded(lower, name(spec), steps, percent.mean(axis=0), *edges, line(1 + number))
        upper.set(title=f"{case.workload}, {case.workers} w., {_seeds(by_compressor)}")
        lower.set(xlabel="step")
        upper.tick_params(labelbottom=False)
        _symmetric_log(lower, "y", 0.1)
        for axes in (upper, lower):
            axes.grid(alpha=0.3)
    for upper, lower in places[::columns]:
        upper.set_ylabel("training loss, float32")
        lower.set_ylabel("minus float32's, %")
    handles, labels = rows[1][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(specs), fontsize=9)
    figure.suptitle("Training loss, averaged over windows of steps: mean and range of seeds")
    return figure


def finals(groups: Groups, margins: Mapping[str, float]) -> Figure:
    """The paper's table 4 and figure 10: every compressor's final metric minus float32's, one dot for each seed.

    The unit is the margin within which a method counts as equal, and right is better in all panels.
    """
    found = ordered(spec for by_compressor in groups.values() for spec in by_compressor)
    specs = [spec for spec in found if spec != BASELINE]
    bands, columns = _bands_and_columns(len(groups))
    figure, panels = plt.subplots(
        bands,
        columns,
        figsize=(max(2.4 + 2.6 * columns, 6), bands * (1.4 + 0.3 * len(specs))),
        sharey=True,
        layout="constrained",
        squeeze=False,
    )
    for axes in panels.flat[len(groups) :]:
        axes.set_visible(False)
    for axes, (case, by_compressor) in zip(panels.flat, groups.items(), strict=False):
        baseline = by_compressor[BASELINE]
        outcome, margin = baseline[0]["outcome"], margins[case.workload]
        unit = margin if outcome["higher_is_better"] else -margin
        axes.axvspan(-1, 1, color="grey", alpha=0.2, linewidth=0)
        axes.axvline(0, color=line(0)["color"], linewidth=1, linestyle="dotted")
        for row, spec in enumerate(specs):
            away = np.array(differences(by_compressor.get(spec, []), baseline)) / unit
            axes.plot(away, [row] * len(away), "o", color=line(1)["color"], alpha=0.5, markersize=4)
            if len(away) > 1:
                half = statistics.half_interval(away.tolist())
                axes.errorbar([away.mean()], [row], xerr=[half], fmt="|", color=line(0)["color"], markersize=12)
        _symmetric_log(axes, "x", 1)
        axes.set(
            title=f"{case.workload}, {case.workers} w., {_seeds(by_compressor)}\n{outcome['metric']}",
            xlabel=f"margins of {margin:g}; right is better",
        )
        axes.grid(alpha=0.3)
    for row in panels:
        row[0].set_yticks(range(len(specs)), [name(spec) for spec in specs])
    panels[0][0].set_ylim(len(specs) - 0.5, -0.5)
    figure.suptitle("Final metric minus float32's: seeds, mean, 95 % confidence")
    return figure


def ordered(specs: Iterable[str]) -> list[str]:
    """Returns the different specs in the order of the panels. Those without a panel come last, 4 before 12."""
    numbers = {
        spec: [(p.isdigit(), int(p) if p.isdigit() else 0, p) for p in re.split(r"(\d+)", spec)] for spec in specs
    }
    order = [BASELINE, *(spec for panel in _panels(numbers).values() for spec in panel)]
    places = {spec: place for place, spec in enumerate(order)}
    return sorted(numbers, key=lambda spec: (places.get(spec, len(order)), numbers[spec]))


def _panels(specs: Container[str]) -> dict[str, list[str]]:
    """Returns which of the specs each panel shows."""
    present = {title: [spec for spec in named if spec in specs] for title, named in PANELS.items()}
    fullest = sorted(present, key=lambda title: -len(present[title]))
    place = {spec: title for title in reversed(fullest) for spec in present[title]}
    return {title: [spec for spec in found if place[spec] == title] for title, found in present.items()}


def _banded(axes: Axes, label: str, x: Any, mean: Any, low: Any, high: Any, style: dict[str, Any]) -> None:
    axes.plot(x, mean, label=label, **style)
    axes.fill_between(x, low, high, color=style["color"], alpha=0.12, linewidth=0)


def _seeds(by_compressor: dict[str, list[Record]]) -> str:
    found = [len(runs) for runs in by_compressor.values()]
    return f"{min(found)} seeds" if min(found) == max(found) else f"{min(found)} to {max(found)} seeds"


def _symmetric_log(axes: Axes, which: str, linear: float) -> None:
    """An axis that is linear up to `linear`, logarithmic beyond, and has plain numbers.

    Besides the powers of ten, it has 2 and 5 of each decade where they fit: data that end at 3 have no other label.
    """
    getattr(axes, f"set_{which}scale")("symlog", linthresh=linear, linscale=0.7)
    axis = getattr(axes, f"{which}axis")
    axis.set_major_locator(SymmetricalLogLocator(linthresh=linear, base=10))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(SymmetricalLogLocator(linthresh=linear, base=10, subs=range(2, 10)))
    axis.set_minor_formatter(BetweenLabels())
    axis.set_tick_params(which="minor", labelsize=SMALL_LABEL)
    if which == "x":
        axis.set_tick_params(which="minor", pad=7)  # on the line of the larger labels


def readable_log_scale(axes: Axes) -> None:
    """A logarithmic y axis whose labels are plain numbers. Call it when all is drawn."""
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    # Less than a factor of three has one or two of a logarithmic scale's places only.
    axes.yaxis.set_major_locator(MaxNLocator(5) if high < 3 * low else LogLocator(subs=(1, 2, 3, 5, 7)))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
