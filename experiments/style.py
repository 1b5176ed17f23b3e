"""The style of all figures.

The colours are Okabe and Ito's, which colour-blind readers can tell apart, with grey instead of yellow, which is pale
on white. Dashes and markers tell curves apart in print without colours.
"""

from __future__ import annotations

from typing import Any

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
