"""Makes tables and figures from the results of `experiments.convergence`.

    python -m experiments.summarize                       # of experiments/results/convergence.jsonl
    python -m experiments.summarize out/other.jsonl

It writes beside NAME.jsonl:

    NAME.md                     final metric (mean and standard deviation over seeds) and bytes
    NAME.png                    the final metrics of all compressors, compared with float32
    NAME-WORKLOAD.png           the metric over the steps, for each workload
    NAME-block-fixed-point.png  the training loss in block fixed point and in float32
"""

from __future__ import annotations

import argparse
import collections
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.paper import TABLE4
from experiments.records import RESULTS, read

Record = dict[str, Any]
BASELINE = "none"


def grouped(records: Sequence[Record]) -> dict[str, dict[str, list[Record]]]:
    """Returns workload -> compressor -> runs. Names are sorted, with the baseline first; runs are sorted by seed."""
    groups: dict[str, dict[str, list[Record]]] = collections.defaultdict(lambda: collections.defaultdict(list))
    for record in sorted(
        records,
        key=lambda r: (
            r["setting"]["compressor"] != BASELINE,
            r["setting"]["workload"],
            r["setting"]["compressor"],
            r["setting"]["seed"],
        ),
    ):
        groups[record["setting"]["workload"]][record["setting"]["compressor"]].append(record)
    return {workload: dict(runs) for workload, runs in sorted(groups.items())}


def final_scores(runs: Sequence[Record]) -> list[float]:
    """Returns the final scores of the runs that did not diverge."""
    finals = [run["outcome"]["scores"][-1][1] for run in runs if not run["outcome"]["diverged"]]
    return [score for score in finals if score is not None]


def cell(runs: Sequence[Record]) -> str:
    """Returns a table cell: mean and standard deviation over seeds, and the number of runs that diverged."""
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
    """Returns whether the means differ by at most the standard error of their difference.

    Returns None if a run diverged or if there are fewer than two seeds.
    """
    ours, theirs = final_scores(runs), final_scores(baseline)
    if len(ours) != len(runs) or min(len(ours), len(theirs)) < 2:
        return None
    error = np.sqrt(np.var(ours, ddof=1) / len(ours) + np.var(theirs, ddof=1) / len(theirs))
    return bool(abs(np.mean(ours) - np.mean(theirs)) <= error)


def difference(runs: Sequence[Record], baseline: Sequence[Record]) -> tuple[float, float] | None:
    """Returns the mean over seeds of the final score minus the baseline's with that seed, and its standard error.

    Runs of one seed have the same data and initial values, so this tells smaller differences than the two means do.
    Returns None if a run diverged, or if there are fewer than two seeds.
    """
    of_seed = {run["setting"]["seed"]: run for run in baseline}
    pairs = [(run, of_seed[run["setting"]["seed"]]) for run in runs if run["setting"]["seed"] in of_seed]
    differences = [
        ours[0] - theirs[0]
        for ours, theirs in ((final_scores([a]), final_scores([b])) for a, b in pairs)
        if ours and theirs
    ]
    if len(differences) != len(runs) or len(differences) < 2:
        return None
    return float(np.mean(differences)), float(np.std(differences, ddof=1) / np.sqrt(len(differences)))


def largest_loss_difference(runs: Sequence[Record], baseline: Sequence[Record]) -> float:
    """Returns the largest relative difference, at any step, of the training loss from the baseline's with that seed."""
    of_seed = {run["setting"]["seed"]: run["outcome"]["losses"] for run in baseline}
    differences = [0.0]
    for run in runs:
        theirs = of_seed.get(run["setting"]["seed"], [])
        differences += [
            math.inf if ours is None else abs(ours / loss - 1)
            for ours, loss in zip(run["outcome"]["losses"], theirs, strict=False)
            if loss
        ]
    return max(differences)


def table(records: Sequence[Record]) -> str:
    """Returns the summary as Markdown."""
    lines = []
    for workload, by_compressor in grouped(records).items():
        first = next(iter(by_compressor.values()))[0]
        outcome, setting = first["outcome"], first["setting"]
        better = "higher" if outcome["higher_is_better"] else "lower"
        lines += [
            f"## {workload}",
            "",
            (
                f"{outcome['metric']} ({better} is better) after {setting['steps']} steps, {setting['workers']} "
                f"workers, {outcome['parameters']:,} parameters; mean ± standard deviation over seeds."
            ),
            "",
            "| compressor | runs | "
            + outcome["metric"]
            + " | as float32 | minus float32 | loss differs by | sent, bytes a step | received | paper |",
            "|---|---:|---|---|---|---:|---:|---:|---|",
        ]
        baseline = by_compressor.get(BASELINE, [])
        for spec, runs in by_compressor.items():
            alike = within_one_standard_error(runs, baseline)
            apart = difference(runs, baseline) if spec != BASELINE else None
            lines.append(
                " | ".join(
                    [
                        f"| `{spec}`",
                        str(len(runs)),
                        cell(runs),
                        "" if alike is None else "yes" if alike else "no",
                        "" if apart is None else f"{apart[0]:+.2g} ± {apart[1]:.1g}",
                        f"{100 * largest_loss_difference(runs, baseline):.2g} %",
                        f"{_mean(runs, 'sent'):,.0f}",
                        f"{_mean(runs, 'received'):,.0f}",
                        TABLE4.get(workload, {}).get(spec, "") + " |",
                    ]
                )
            )
        lines.append("")
    return "\n".join(lines + [_NOTE])


_NOTE = """\
*As float32*: the mean is within one standard error (of the difference of the means) of `none`'s. *Minus float32*: the
mean over seeds of the difference from `none` with the same seed, ± its standard error. *Loss differs by*: the largest
relative difference of the training loss at any step from `none`'s at that step with the same seed (losses are recorded
with five digits). *Paper*: the SwitchML paper's table 4, another model on other data: compare the order, not the
numbers. A name that ends in `-ef` is that compressor without its error feedback.
"""


def curve(runs: Sequence[Record]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the steps, the means over seeds, and half the width of the 95 % confidence interval (0 for one seed).

    Runs that diverged count up to the step at which they diverged.
    """
    by_step: dict[int, list[float]] = collections.defaultdict(list)
    for run in runs:
        for step, score in run["outcome"]["scores"]:
            if score is not None:
                by_step[step].append(score)
    steps = sorted(by_step)
    return np.array(steps), *_mean_and_band([by_step[step] for step in steps])


def smoothed_losses(runs: Sequence[Record], window: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Like `curve`, for the training loss averaged over windows of steps. Runs that diverged do not count."""
    whole = [run["outcome"]["losses"] for run in runs if not run["outcome"]["diverged"]]
    means = np.array(
        [
            [np.mean(losses[start : start + window]) for start in range(0, len(losses) - window + 1, window)]
            for losses in whole
        ]
    )
    return window * (np.arange(means.shape[1]) + 0.5), *_mean_and_band(means.T.tolist())


def _mean_and_band(samples: Sequence[Sequence[float]]) -> tuple[np.ndarray, np.ndarray]:
    half = [_student(len(s)) * np.std(s, ddof=1) / np.sqrt(len(s)) if len(s) > 1 else 0.0 for s in samples]
    return np.array([np.mean(s) for s in samples]), np.array(half)


def _student(samples: int) -> float:
    """Returns the 97.5 % quantile of Student's t with samples - 1 degrees of freedom."""
    quantiles = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
    return quantiles[samples - 2] if samples - 2 < len(quantiles) else 1.96


def _mean(runs: Sequence[Record], name: str) -> float:
    return float(np.mean([run["outcome"][name] for run in runs]))


def main() -> None:
    from experiments import figures

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    for file in parser.parse_args().files or [RESULTS / "convergence.jsonl"]:
        records = read(file)
        file.with_suffix(".md").write_text(
            f"# {file.stem}\n\nWritten by `python -m experiments.summarize`.\n\n" + table(records)
        )
        groups = grouped(records)
        drawn = {"": figures.finals(groups)}
        if all("int32" in by_compressor for by_compressor in groups.values()):
            drawn["-block-fixed-point"] = figures.block_fixed_point(groups)
        drawn |= {f"-{workload}": figures.metric_over_steps(workload, runs) for workload, runs in groups.items()}
        for ending, figure in drawn.items():
            figure.savefig(file.with_name(f"{file.stem}{ending}.png"), dpi=110)
        print(file.with_suffix(".md"))


if __name__ == "__main__":
    main()
