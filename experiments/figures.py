"""Draws the figures of the convergence study. A compressor has the same colour and marker in all of them."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.style import line
from experiments.summarize import BASELINE, curve, final_scores, smoothed_losses

Groups = dict[str, dict[str, list[dict[str, Any]]]]

# The compressors of each panel: few enough that a reader can tell the curves apart.
PANELS = {
    "summed as block fixed point": ("int32", "int16", "int8", "int8:stochastic", "int32:paper"),
    "quantized": ("qsgd", "qsgd:levels=256", "terngrad", "thc", "efsignsgd"),
    "sparse or of low rank": ("topk:ratio=0.1-ef", "topk-ef", "topk", "powersgd"),
    "narrow words, more": ("int8+ef", "int8:stochastic+ef", "int16:stochastic", "int16+ef", "int16:stochastic+ef"),
}
# The order of compressors in the figures.
ORDER = [BASELINE, *(spec for specs in PANELS.values() for spec in specs)]


def name(spec: str) -> str:
    """Returns the compressor's name for readers."""
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
        "int8:stochastic": "int8, stochastic",
        "int8+ef": "int8, error feedback",
        "int8:stochastic+ef": "int8, stochastic, error feedback",
        "int16:stochastic": "int16, stochastic",
        "int16+ef": "int16, error feedback",
        "int16:stochastic+ef": "int16, stochastic, error feedback",
        "adaptive8": "8 bits, adaptive shift",
        "adaptive8:stochastic": "8 bits, adaptive shift, stochastic",
        "blockfp:bits=8": "8 bits, head-room",
        "blockfp:bits=8:stochastic": "8 bits, head-room, stochastic",
        "int32:paper": "int32, the paper's f",
    }.get(spec, spec)


def metric_over_steps(workload: str, by_compressor: dict[str, list[dict[str, Any]]]) -> Figure:
    """Draws the metric's mean over seeds with a 95 % band. Each kind of compressor has a panel; float32 is in all."""
    outcome = next(iter(by_compressor.values()))[0]["outcome"]
    kinds = {title: [spec for spec in specs if spec in by_compressor] for title, specs in PANELS.items()}
    kinds["others"] = [spec for spec in by_compressor if spec not in ORDER]
    kinds = {title: specs for title, specs in kinds.items() if specs}
    figure, (panels,) = plt.subplots(
        1, len(kinds), figsize=(4 * len(kinds), 4), sharey=True, layout="constrained", squeeze=False
    )
    for axes, (title, specs) in zip(panels, kinds.items(), strict=True):
        for number, spec in enumerate([BASELINE, *specs]):
            if spec in by_compressor:
                _banded(axes, spec, *curve(by_compressor[spec]), style=line(number) if title == "others" else None)
        axes.set(title=title, xlabel="step")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    panels[0].set_ylabel(f"{outcome['metric']}, {'higher' if outcome['higher_is_better'] else 'lower'} is better")
    if not outcome["higher_is_better"]:
        readable_log_scale(panels[0])
    seen = [
        score
        for runs in by_compressor.values()
        for run in runs
        for _, score in run["outcome"]["scores"]
        if score is not None
    ]
    margin = 0.05 * (max(seen) - min(seen))
    # The limits follow the scores, not the bands: a band of three seeds may be wider than the metric's range.
    panels[0].set_ylim(min(seen) - margin, max(seen) + margin)
    figure.suptitle(f"{workload}: {_conditions(by_compressor)}, mean and 95 % confidence band")
    return figure


def _banded(
    axes: Axes, spec: str, x: np.ndarray, mean: np.ndarray, half: np.ndarray, style: dict[str, Any] | None = None
) -> None:
    style = style or _style(spec)
    axes.plot(x, mean, label=name(spec), **style)
    axes.fill_between(x, mean - half, mean + half, color=style["color"], alpha=0.15, linewidth=0)


def block_fixed_point(groups: Groups) -> Figure:
    """The paper's figures 2 and 11: training loss in block fixed point and in float32."""
    figure, panels = plt.subplots(1, len(groups), figsize=(3.4 * len(groups), 3.6), layout="constrained", squeeze=False)
    for axes, (workload, by_compressor) in zip(panels[0], groups.items(), strict=True):
        for spec in (BASELINE, "int32", "int16", "int8", "int8:stochastic"):
            if spec in by_compressor:
                _banded(axes, spec, *smoothed_losses(by_compressor[spec], 10))
        axes.set(title=workload, xlabel="step")
        axes.grid(alpha=0.3)
    panels[0][0].set_ylabel("training loss, mean of ten steps")
    panels[0][-1].legend(fontsize=8)
    figure.suptitle(f"Block fixed point and float32, {_conditions(next(iter(groups.values())))}, 95 % confidence band")
    return figure


def finals(groups: Groups) -> Figure:
    """The paper's table 4 and figure 10: the final metric of every compressor, one dot for each seed."""
    found = {spec: None for by_compressor in groups.values() for spec in by_compressor}
    specs = [*(spec for spec in ORDER if spec in found), *(spec for spec in found if spec not in ORDER)]
    figure, panels = plt.subplots(
        1,
        len(groups),
        figsize=(2 + 2.6 * len(groups), 1 + 0.3 * len(specs)),
        sharey=True,
        layout="constrained",
        squeeze=False,
    )
    for axes, (workload, by_compressor) in zip(panels[0], groups.items(), strict=True):
        for row, spec in enumerate(specs):
            scores = final_scores(by_compressor.get(spec, []))
            color = _style(spec)["color"]
            axes.plot(scores, [row] * len(scores), "o", color=color, alpha=0.5, markersize=4)
            if scores:
                axes.plot([np.mean(scores)], [row], "|", color=color, markersize=14, markeredgewidth=2)
        baseline = final_scores(by_compressor.get(BASELINE, []))
        if baseline:
            axes.axvline(np.mean(baseline), color="grey", linewidth=1, linestyle="dotted")
        outcome = next(iter(by_compressor.values()))[0]["outcome"]
        axes.set(title=workload, xlabel=outcome["metric"] + (" →" if outcome["higher_is_better"] else " ←"))
        axes.grid(alpha=0.3)
    panels[0][0].set_yticks(range(len(specs)), [name(spec) for spec in specs])
    panels[0][0].invert_yaxis()
    figure.suptitle(
        "Final metric: a dot for each seed, a bar for their mean, float32's mean dotted; arrows point to better"
    )
    return figure


def _style(spec: str) -> dict[str, Any]:
    if spec == BASELINE:
        return line(0)
    for specs in PANELS.values():
        if spec in specs:
            return line(1 + specs.index(spec))
    return line(7)


def _conditions(by_compressor: dict[str, list[dict[str, Any]]]) -> str:
    workers = next(iter(by_compressor.values()))[0]["setting"]["workers"]
    seeds = sorted({len(runs) for runs in by_compressor.values()})
    return f"{workers} workers, {'-'.join(map(str, seeds))} seeds"


def readable_log_scale(axes: Axes) -> None:
    """A logarithmic y axis whose labels are plain numbers."""
    from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5, 7)))
    axes.yaxis.set_major_formatter(ScalarFormatter())
    axes.yaxis.set_minor_formatter(NullFormatter())
