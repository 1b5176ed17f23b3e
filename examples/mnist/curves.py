"""Draws the loss and the accuracy of one or several runs, step by step, and writes them as a PNG."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path

import matplotlib
import numpy as np
from shared.report import RunRecord

# Colour-blind readers can tell the colours of Okabe and Ito's palette apart. The dashes keep a curve visible when
# another one lies on top of it.
COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000"]
DASHES = ["solid", (0, (6, 3)), (0, (2, 2)), (0, (6, 2, 1, 2))]
SMOOTHING = 10  # steps


def moving_average(values: list[float], width: int) -> np.ndarray:
    """Returns at each step the mean of the last `width` values (of fewer at the start)."""
    sums = np.cumsum(np.concatenate([[0.0], values]))
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(ends - width, 0)
    return (sums[ends] - sums[starts]) / (ends - starts)


def plot_curves(runs: list[tuple[str, RunRecord]], file: Path) -> None:
    """Draws the training loss and training accuracy of (name, run) pairs and writes them to the PNG `file`."""
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, (loss_axes, accuracy_axes) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for (name, run), colour, dashes in zip(runs, cycle(COLOURS), cycle(DASHES), strict=False):
        style = {"color": colour, "linestyle": dashes, "linewidth": 1.8}
        steps = np.arange(1, len(run.loss) + 1)
        label = f"{name} (test accuracy {100 * run.test_accuracy:.1f} %)"
        loss_axes.plot(steps, moving_average(run.loss, SMOOTHING), label=label, **style)
        accuracy = 100 * moving_average(run.accuracy, SMOOTHING)
        accuracy_axes.plot(steps, accuracy, label=label, **style)
    loss_axes.set(xlabel="step", ylabel="training loss (log scale)", yscale="log")
    accuracy_axes.set(xlabel="step", ylabel="training accuracy (%)", ylim=(None, 100.5))
    for axes in (loss_axes, accuracy_axes):
        axes.grid(alpha=0.3)
    accuracy_axes.legend(loc="lower right")
    figure.suptitle(f"CNN on 5,000 MNIST digits, {runs[0][1].devices} devices (mean of {SMOOTHING} steps)")
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=120)
    plt.close(figure)
