"""The style of all figures.

The colours are Okabe and Ito's, which colour-blind readers can tell apart, with grey instead of yellow, which is pale
on white. Dashes and markers tell curves apart in print without colours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.font_manager import FontProperties
from matplotlib.ticker import Formatter

SMALL_LABEL = 7
"""The size of labels between those of the powers of ten, in points."""

COLOURS = ("#000000", "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#888888")
_DASHES = ("solid", (0, (6, 2)), (0, (2, 1.5)), (0, (6, 2, 1, 2)))
_MARKERS = "osD^vPX*<"


def line(number: int) -> dict[str, Any]:
    """Returns the plot arguments of a curve by its number. 72 curves in a row differ in colour or marker."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "linestyle": _DASHES[number % len(_DASHES)],
        "marker": _MARKERS[number % len(_MARKERS)],
        "markersize": 4,
        "linewidth": 1.5,
    }


class BetweenLabels(Formatter):
    """Labels the minor ticks 2 and 5 of each decade of a logarithmic axis, where they have room beside other labels."""

    def __call__(self, value: float, pos: int | None = None) -> str:
        return f"{value:g}"

    def format_ticks(self, values: Sequence[float]) -> list[str]:
        axis: Any = self.axis  # of an Axes, not of a colour bar
        low, high = sorted(axis.get_view_interval())
        size = FontProperties(size=rcParams[f"{axis.axis_name}tick.labelsize"]).get_size_in_points()
        taken = [(tick, self._half(tick, size)) for tick in axis.get_majorticklocs() if low <= tick <= high]
        chosen = set()
        wanted = [value for value in values if low <= value <= high and f"{abs(value):e}"[0] in "25"]
        for value in sorted(wanted, key=lambda value: (f"{abs(value):e}"[0], abs(value))):
            half = self._half(value, SMALL_LABEL)
            gaps = (abs(self._place(value) - self._place(other)) - half - more for other, more in taken)
            if min(gaps, default=np.inf) >= SMALL_LABEL / 2:
                taken.append((value, half))
                chosen.add(value)
        return [self(value) if value in chosen else "" for value in values]

    def _half(self, value: float, size: float) -> float:
        """Returns half of what a label takes along the axis, in points."""
        axis: Any = self.axis
        return size * (0.65 * len(f"{value:g}") if axis.axis_name == "x" else 1) / 2

    def _place(self, value: float) -> float:
        """Returns where a value is on the axis, in points."""
        axis: Any = self.axis
        axes: Axes = axis.axes
        along = int(axis.axis_name == "y")
        point = [0.0, 0.0]
        point[along] = value
        return float(axes.transData.transform(point)[along]) * 72 / axes.figure.dpi
