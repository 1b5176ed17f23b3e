"""Tables and figures from the results of `experiments.convergence`.

    python -m experiments.summarize                       # every results file that is there
    python -m experiments.summarize experiments/results/table4.jsonl

Beside NAME.jsonl it writes NAME.md (final metric and bytes, mean and standard deviation over seeds) and for each
workload NAME-WORKLOAD.png (the metric over the steps).
"""

from __future__ import annotations

import argparse
import collections
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.paper import TABLE4
from experiments.records import RESULTS, read
from experiments.style import line

Record = dict[str, Any]
_CURVES = 8  # in one figure: more are not told apart


def grouped(records: Sequence[Record]) -> dict[str, dict[str, list[Record]]]:
    """workload -> compressor -> runs, in the order in which they were made."""
    groups: dict[str, dict[str, list[Record]]] = collections.defaultdict(lambda: collections.defaultdict(list))
    for record in records:
        groups[record["setting"]["workload"]][record["setting"]["compressor"]].append(record)
    return {workload: dict(runs) for workload, runs in groups.items()}


def final_scores(runs: Sequence[Record]) -> list[float]:
    """Of the runs that did not diverge."""
    finals = [run["outcome"]["scores"][-1][1] for run in runs if not run["outcome"]["diverged"]]
    return [score for score in finals if score is not None]


def cell(runs: Sequence[Record]) -> str:
    """Mean and standard deviation over seeds, and how many diverged."""
    scores = final_scores(runs)
    diverged = len(runs) - len(scores)
    parts = []
    if scores:
        spread = f" ± {np.std(scores, ddof=1):.2g}" if len(scores) > 1 else ""
        parts.append(f"{np.mean(scores):.4g}{spread}")
    if diverged:
        parts.append(f"{diverged} of {len(runs)} diverge")
    return ", ".join(parts)


def within_one_standard_error(runs: Sequence[Record], baseline: Sequence[Record]) -> bool | None:
    """Whether the means differ by at most the standard error of their difference; None with fewer than two seeds."""
    ours, theirs = final_scores(runs), final_scores(baseline)
    if len(ours) != len(runs) or min(len(ours), len(theirs)) < 2:
        return None
    error = np.sqrt(np.var(ours, ddof=1) / len(ours) + np.var(theirs, ddof=1) / len(theirs))
    return bool(abs(np.mean(ours) - np.mean(theirs)) <= error)


def table(records: Sequence[Record]) -> str:
    """The summary as Markdown."""
    lines = []
    for workload, by_compressor in grouped(records).items():
        first = next(iter(by_compressor.values()))[0]
        outcome, setting = first["outcome"], first["setting"]
        better = "higher" if outcome["higher_is_better"] else "lower"
        lines += [
            f"## {workload}", "",
            f"{outcome['metric']} ({better} is better) after {setting['steps']} steps, {setting['workers']} workers, "
            f"{outcome['parameters']:,} parameters; mean ± standard deviation over seeds.", "",
            "| compressor | runs | " + outcome["metric"] + " | as none | sent, bytes a step | received | paper |",
            "|---|---:|---|---|---:|---:|---|",
        ]
        for spec, runs in by_compressor.items():
            alike = within_one_standard_error(runs, by_compressor.get("none", []))
            lines.append(
                f"| `{spec}` | {len(runs)} | {cell(runs)} | {'' if alike is None else 'yes' if alike else 'no'} | "
                f"{_mean(runs, 'sent'):,.0f} | {_mean(runs, 'received'):,.0f} | {TABLE4[workload].get(spec, '')} |")
        lines.append("")
    return "\n".join(lines + [_NOTE])


_NOTE = """\
*As none*: the mean is within one standard error (of the difference) of float32's. *Paper*: the SwitchML paper's table 4,
another model on other data: compare the order, not the numbers.
"""


def plot(workload: str, by_compressor: dict[str, list[Record]], file: Path) -> None:
    """The metric over the steps: mean over seeds, and a 95 % confidence band of it."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    for number, (spec, runs) in enumerate(list(by_compressor.items())[:_CURVES]):
        steps, mean, half = curve(runs)
        style = line(number)
        axes.plot(steps, mean, label=spec, **style)
        axes.fill_between(steps, mean - half, mean + half, color=style["color"], alpha=0.15, linewidth=0)
    first = next(iter(by_compressor.values()))[0]
    axes.set(xlabel="step", ylabel=first["outcome"]["metric"])
    if not first["outcome"]["higher_is_better"]:
        axes.set_yscale("log")
    axes.set_title(f"{workload}, {first['setting']['workers']} workers, "
                   f"{max(map(len, by_compressor.values()))} seeds, 95 % band")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    figure.savefig(file, dpi=120)
    plt.close(figure)


def curve(runs: Sequence[Record]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Steps, means over seeds, and half the width of the 95 % confidence interval (0 for one seed). Runs that diverged
    count while they last."""
    by_step: dict[int, list[float]] = collections.defaultdict(list)
    for run in runs:
        for step, score in run["outcome"]["scores"]:
            if score is not None:
                by_step[step].append(score)
    steps = sorted(by_step)
    half = [_student(len(by_step[s])) * np.std(by_step[s], ddof=1) / np.sqrt(len(by_step[s]))
            if len(by_step[s]) > 1 else 0.0 for s in steps]
    return np.array(steps), np.array([np.mean(by_step[s]) for s in steps]), np.array(half)


def _student(samples: int) -> float:
    """The 97.5 % quantile of Student's t with samples - 1 degrees of freedom."""
    quantiles = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
    return quantiles[samples - 2] if samples - 2 < len(quantiles) else 1.96


def _mean(runs: Sequence[Record], name: str) -> float:
    return float(np.mean([run["outcome"][name] for run in runs]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    for file in parser.parse_args().files or sorted(RESULTS.glob("*.jsonl")):
        records = read(file)
        file.with_suffix(".md").write_text(f"# {file.stem}\n\nWritten by `python -m experiments.summarize`.\n\n"
                                           + table(records))
        for workload, by_compressor in grouped(records).items():
            plot(workload, by_compressor, file.with_name(f"{file.stem}-{workload}.png"))
        print(file.with_suffix(".md"))


if __name__ == "__main__":
    main()
