"""The colours of the figures, and the parts that several figures draw."""

from __future__ import annotations

from pathlib import Path
from typing import Any

# Okabe and Ito's colours, which colour-blind readers can tell apart.
COLOURS = {"jaxina": "#0072B2", "gloo": "#E69F00", "Open MPI, TCP": "#009E73", "limit": "#000000"}


def axes(columns: int = 1, width: float = 5.0) -> tuple[Any, Any]:
    """Returns a new figure and its axes: one, or a row of them."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, made = plt.subplots(1, columns, figsize=(width * columns, 3.4))
    return figure, made


def save(figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100, bbox_inches="tight")


def bars_beside(where: Any, groups: list[str], heights: dict[str, list[float]], form: str) -> None:
    """Draws for each group one bar of each name, with its height written above it."""
    width = 0.8 / len(heights)
    for number, (name, values) in enumerate(heights.items()):
        places = [group + (number - (len(heights) - 1) / 2) * width for group in range(len(groups))]
        made = where.bar(places, values, width, label=name, color=COLOURS.get(name))
        where.bar_label(made, fmt=form, fontsize=8)
    where.set_xticks(range(len(groups)), groups)
