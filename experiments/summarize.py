"""Makes tables and figures from the results of `experiments.convergence`.

    python -m experiments.summarize                       # of experiments/results/convergence.jsonl
    python -m experiments.summarize out/other.jsonl

It writes beside NAME.jsonl:

    NAME.md                     final metric, how it compares with float32's, and bytes
    NAME.png                    the final metrics of all compressors minus float32's
    NAME-WORKLOAD.png           the same over the steps, for each workload
    NAME-block-fixed-point.png  the training loss in block fixed point beside that in float32
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from experiments import figures, statistics
from experiments.paper import TABLE4
from experiments.recorded import (
    BASELINE,
    Record,
    differences,
    final_scores,
    grouped,
    largest_loss_difference,
    margin_of,
)
from experiments.records import RESULTS, read


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


def beside_baseline(by_compressor: dict[str, list[Record]]) -> dict[str, tuple[str, str]]:
    """Compares all compressors of a workload with the baseline. They are one family for Holm's correction.

    Returns:
      By compressor, the mean difference with its confidence interval, and the verdict. Without a baseline, nothing.
    """
    baseline = by_compressor.get(BASELINE, [])
    cells, family = {}, {}
    for spec, runs in by_compressor.items():
        if spec == BASELINE or not final_scores(baseline):
            continue
        found = differences(runs, baseline)
        interval = f"{np.mean(found):+.2g}" if found else ""
        if len(found) > 1:
            interval += f" ± {statistics.half_interval(found):.2g}"
        cells[spec] = (interval, "diverges" if len(found) < len(runs) else "too few seeds")
        if len(found) == len(runs) >= statistics.FEWEST_SEEDS:
            family[spec] = statistics.compare(found, margin_of(baseline))
    higher = next(iter(by_compressor.values()))[0]["outcome"]["higher_is_better"]
    for spec, verdict in zip(family, statistics.verdicts(list(family.values()), higher), strict=True):
        cells[spec] = (cells[spec][0], verdict)
    return cells


def table(records: Sequence[Record]) -> str:
    """Returns the summary as Markdown."""
    lines = []
    for workload, by_compressor in grouped(records).items():
        first = next(iter(by_compressor.values()))[0]
        outcome, setting = first["outcome"], first["setting"]
        better = "higher" if outcome["higher_is_better"] else "lower"
        baseline = by_compressor.get(BASELINE, [])
        margin = f" The margin is {margin_of(baseline):.2g}." if final_scores(baseline) else ""
        lines += [
            f"## {workload}",
            "",
            (
                f"{outcome['metric']} ({better} is better) after {setting['steps']} steps, {setting['workers']} "
                f"workers, {outcome['parameters']:,} parameters; mean ± standard deviation over seeds.{margin}"
            ),
            "",
            "| compressor | runs | "
            + outcome["metric"]
            + " | minus float32 | verdict | loss differs by | sent, bytes a step | received | paper |",
            "|---|---:|---|---|---|---:|---:|---:|---|",
        ]
        beside = beside_baseline(by_compressor)
        for spec in figures.ordered(by_compressor):
            runs = by_compressor[spec]
            lines.append(
                " | ".join(
                    [
                        f"| `{spec}`",
                        str(len(runs)),
                        cell(runs),
                        *beside.get(spec, ("", "")),
                        f"{100 * largest_loss_difference(runs, baseline):.2g} %",
                        f"{_mean(runs, 'sent'):,.0f}",
                        f"{_mean(runs, 'received'):,.0f}",
                        TABLE4.get(workload, {}).get(spec, "") + " |",
                    ]
                )
            )
        lines.append("")
    return "\n".join(lines + [_NOTE])


_NOTE = f"""\
*Minus float32*: the mean over seeds of the difference from `none` with the same seed, ± half its 95 % confidence
interval. *Verdict*: by paired tests at the level {statistics.LEVEL}, with Holm's correction over the compressors of a
workload (`experiments/statistics.py`). "equivalent": the difference is smaller than the margin, which is
{100 * statistics.MARGIN:.0f} % of `none`'s metric. "better", "worse": it is not 0. "undecided": neither was found,
which does not mean that there is no difference. With fewer than {statistics.FEWEST_SEEDS} seeds there is no verdict.
*Loss differs by*: the largest relative difference of the training loss at any step from `none`'s at that step with the
same seed (losses are recorded with five digits). *Paper*: the SwitchML paper's table 4, another model on other data:
compare the order, not the numbers. A name that ends in `-ef` is that compressor without its error feedback.
"""


def _mean(runs: Sequence[Record], name: str) -> float:
    return float(np.mean([run["outcome"][name] for run in runs]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    for file in parser.parse_args().files or [RESULTS / "convergence.jsonl"]:
        records = read(file)
        file.with_suffix(".md").write_text(
            f"# {file.stem}\n\nWritten by `python -m experiments.summarize`.\n\n" + table(records)
        )
        # Figures show differences from float32, so a workload without it has none.
        groups = {name: runs for name, runs in grouped(records).items() if final_scores(runs.get(BASELINE, []))}
        if not groups:
            print(f"{file}: no runs of {BASELINE}, so no figures")
            continue
        drawn = {"": figures.finals(groups)}
        if all("int32" in by_compressor for by_compressor in groups.values()):
            drawn["-block-fixed-point"] = figures.block_fixed_point(groups)
        drawn |= {f"-{workload}": figures.metric_over_steps(workload, runs) for workload, runs in groups.items()}
        for ending, figure in drawn.items():
            figure.savefig(file.with_name(f"{file.stem}{ending}.png"), dpi=110)
        print(file.with_suffix(".md"))


if __name__ == "__main__":
    main()
