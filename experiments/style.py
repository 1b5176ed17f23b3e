"""How all figures look: Okabe and Ito's colours (but yellow, which is pale on white), which colour-blind readers can tell
apart; dashes and markers for print without colours."""

from __future__ import annotations

from typing import Any

COLOURS = ("#000000", "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9")
_DASHES = ("solid", (0, (6, 2)), (0, (2, 1.5)), (0, (6, 2, 1, 2)))
_MARKERS = "osD^vPX*"


def line(number: int) -> dict[str, Any]:
    """Keyword arguments of the curve of that number; 56 differ in colour or marker."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "linestyle": _DASHES[number % len(_DASHES)],
        "marker": _MARKERS[number % len(_MARKERS)],
        "markersize": 4,
        "linewidth": 1.5,
    }
