"""Shows on one page how every compressor ended beside float32, on all workloads.

    python -m experiments.overview         # writes results/overview.md and .png

The differences and verdicts are those of the studies. Differences are in margins, so that workloads compare, and more
is better. What a study of the same case lacks comes from the study of momentum. A case of a study that still runs is
left out: its verdicts would be corrected for fewer compressors than at its end. A second table says how likely each
case would have shown that two compressors are the same.
"""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from experiments import figures, statistics
from experiments.grid import CONFIGS, DEFAULT, MOMENTUM, SIXTEEN_WORKERS, TRANSFORMERS, Grid
from experiments.recorded import Case, grouped, with_changes
from experiments.records import RESULTS, when
from experiments.verdicts import beside_baseline

STUDIES = (DEFAULT, TRANSFORMERS, SIXTEEN_WORKERS, MOMENTUM)

EQUIVALENT, UNDECIDED, WORSE, BETTER, NONE = "=", "?", "worse", "better", "-"
LITTLE_WORSE, LITTLE_BETTER = "= worse", "= better"
_MEANING = {
    EQUIVALENT: "equivalent",
    LITTLE_WORSE: "equivalent, though worse",
    LITTLE_BETTER: "equivalent, though better",
    UNDECIDED: "undecided",
    WORSE: "worse",
    BETTER: "better",
    NONE: "no verdict",
}
_COLOURS = {  # tints of Okabe and Ito's, dark enough to tell apart and light enough to read on
    EQUIVALENT: "#8fc7e8",
    LITTLE_WORSE: "#8fc7e8",
    LITTLE_BETTER: "#8fc7e8",
    UNDECIDED: "#f2f2f2",
    WORSE: "#f0b27a",
    BETTER: "#8fd6bd",
    NONE: "#ffffff",
}
_FRAMES = {LITTLE_WORSE: "#d55e00", LITTLE_BETTER: "#009e73"}  # around the tint of what is equivalent

POOR = 0.2
"""A smaller power is hardly any."""


@dataclasses.dataclass(frozen=True)
class Cell:
    """How a compressor ended on a workload.

    Attributes:
      margins: the mean difference from float32 in margins; above 0 is better. NaN if there are no differences.
      kind: EQUIVALENT, LITTLE_WORSE, LITTLE_BETTER, UNDECIDED, WORSE, BETTER or NONE.
      power: how likely this number of seeds, with the spread of the differences that was found, shows that a compressor
        without any difference is equivalent, if it is tested alone. NaN without a verdict.
    """

    margins: float
    kind: str
    power: float = math.nan

    def __str__(self) -> str:
        if math.isnan(self.margins):
            return "diverges"
        size = abs(self.margins)
        if size < 0.005:
            return "0"
        return f"{self.margins:+.{0 if size >= 9.95 else 1 if size >= 0.095 else 2}f}"


Cells = Mapping[Case, Mapping[str, Cell]]
"""case -> compressor -> cell."""


def cells(studies: Sequence[Grid]) -> Cells:
    """Returns all compressors of all cases that are over. Where two studies have one, the earlier study counts."""
    found: dict[Case, dict[str, Cell]] = collections.defaultdict(dict)
    for study in studies:
        for case, runs in grouped(study.recorded()).items():
            if study.lacking(runs):
                continue
            margin = study.margins[case.workload]
            higher = next(iter(runs.values()))[0]["outcome"]["higher_is_better"]
            for spec, beside in beside_baseline(runs, margin).items():
                kind = kind_of(beside.verdict)
                power = math.nan if kind == NONE else _power(beside.differences, margin)
                found[case].setdefault(spec, Cell((1 if higher else -1) * beside.mean / margin, kind, power))
    return dict(found)


def kind_of(verdict: str) -> str:
    """Returns the kind of a verdict of `statistics.verdicts`. A reason why there is none is NONE."""
    kinds = {words: kind for kind, words in _MEANING.items() if kind not in (WORSE, BETTER)}
    return (kinds | {"different: worse": WORSE, "different: better": BETTER}).get(verdict, NONE)


def _power(differences: Sequence[float], margin: float) -> float:
    spread = float(np.std(differences, ddof=1))
    return statistics.power(len(differences), spread, margin, 0.0) if spread else 1.0


def document(found: Cells, made: str) -> str:
    """Returns the page, as Markdown. `made` says how many runs were made, and when."""
    lines = [
        "# Overview",
        "",
        (
            "Written by `python -m experiments.overview`. Final metrics minus float32's, means over seeds, in margins: "
            '+1 is better by as much as still counts as equal, -1 is worse by as much. =: equivalent; "= worse": '
            "equivalent, though worse. ?: undecided. "
            "Holm's correction is over the compressors of a study; the rows of `dgc` are of another study than the "
            "rest. The intervals, commits and machines are in the pages of the studies."
        ),
        "",
        made,
        "",
    ]
    for workers, by_case in _by_workers(found):
        lines += [
            f"## {workers} workers",
            "",
            "| compressor | " + " | ".join(case.workload for case in by_case) + " |",
            "|---|" + "---:|" * len(by_case),
        ]
        for spec in _specs(by_case):
            row = [by_case[case].get(spec) for case in by_case]
            words = ["" if cell is None else f"{cell} {cell.kind}" for cell in row]
            lines.append(f"| `{spec}` | " + " | ".join(words) + " |")
        lines.append("")
    return "\n".join([*lines, *_powers(found)])


def _powers(found: Cells) -> list[str]:
    """Returns the section on how much the verdicts could tell."""
    judged = {case: [cell for cell in by_spec.values() if cell.kind != NONE] for case, by_spec in found.items()}
    judged = {case: of_one for case, of_one in judged.items() if of_one}
    every = [cell for of_one in judged.values() for cell in of_one]
    undecided = sum(cell.kind == UNDECIDED for cell in every)
    lines = [
        "## What could be told",
        "",
        (
            f"{undecided} of {len(every)} verdicts are undecided. *Power*: if a compressor's true difference were 0, "
            "how likely its seeds, with the spread that they have, would show that it is equivalent. Of one compressor "
            "tested alone: Holm's correction makes it less likely."
        ),
        "",
        f"| | verdicts | undecided | power, smallest | median | largest | below {POOR:g} |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for case, of_one in judged.items():
        powers = [cell.power for cell in of_one]
        numbers = [f"{of(powers):.2f}" for of in (np.min, np.median, np.max)]
        few, poor = sum(cell.kind == UNDECIDED for cell in of_one), sum(power < POOR for power in powers)
        lines.append(f"| {case} | {len(of_one)} | {few} | {' | '.join(numbers)} | {poor} |")
    return [*lines, ""]


def plot(found: Cells, file: Path) -> None:
    import matplotlib.pyplot as plt
    from matplotlib.patches import Patch, Rectangle

    tables = _by_workers(found)
    heights = [1.6 + len(_specs(by_case)) for _, by_case in tables]
    figure, rows = plt.subplots(
        len(tables),
        1,
        figsize=(11.5, 0.27 * sum(heights) + 0.8),
        height_ratios=heights,
        layout="constrained",
        squeeze=False,
    )
    columns = max(len(by_case) for _, by_case in tables)
    for axes, (workers, by_case) in zip(rows.flat, tables, strict=True):
        specs = _specs(by_case)
        for x, case in enumerate(by_case):
            for y, spec in enumerate(specs):
                if (cell := by_case[case].get(spec)) is not None:
                    axes.add_patch(Rectangle((x, y), 1, 1, facecolor=_COLOURS[cell.kind], edgecolor="white"))
                    if frame := _FRAMES.get(cell.kind):
                        axes.add_patch(Rectangle((x + 0.03, y + 0.1), 0.94, 0.8, fill=False, edgecolor=frame, lw=2))
                    axes.text(x + 0.5, y + 0.5, str(cell), ha="center", va="center", fontsize=9)
        axes.set(xlim=(0, columns), ylim=(len(specs), 0), title=f"{workers} workers")
        axes.set_xticks([x + 0.5 for x in range(len(by_case))], [case.workload for case in by_case])
        axes.set_yticks([y + 0.5 for y in range(len(specs))], [figures.name(spec) for spec in specs])
        axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
        axes.spines[:].set_visible(False)
    kinds = {cell.kind for by_spec in found.values() for cell in by_spec.values()}
    patches = [
        Patch(
            facecolor=_COLOURS[kind],
            edgecolor=_FRAMES.get(kind, "grey"),
            linewidth=2 if kind in _FRAMES else 1,
            label=_MEANING[kind],
        )
        for kind in _MEANING
        if kind in kinds
    ]
    figure.legend(handles=patches, loc="outside lower center", ncols=len(patches), fontsize=9)
    figure.suptitle("Final metric minus float32's, in margins; above 0 is better")
    figure.savefig(file, dpi=110)
    plt.close(figure)


def _by_workers(found: Cells) -> list[tuple[int, Cells]]:
    return [
        (workers, {case: by_spec for case, by_spec in found.items() if case.workers == workers})
        for workers in sorted({case.workers for case in found})
    ]


def _specs(by_case: Cells) -> list[str]:
    return figures.ordered(spec for by_spec in by_case.values() for spec in by_spec)


def main() -> None:
    studies = [Grid.read(file) for file in STUDIES]
    found = cells(studies)
    if not found:
        print("no study is over yet")
        return
    runs = [run for study in studies for run in study.recorded()]
    every = [run for file in sorted(CONFIGS.glob("*.toml")) for run in Grid.read(file).recorded()]
    made = f"{len(runs)} runs, which ended {when(runs)}. Of the {len(every)} runs that all studies count, "
    made += f"{with_changes(every)} were made with uncommitted changes."
    (RESULTS / "overview.md").write_text(document(found, made))
    plot(found, RESULTS / "overview.png")
    print(RESULTS / "overview.md")


if __name__ == "__main__":
    main()
