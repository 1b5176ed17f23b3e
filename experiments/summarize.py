"""Makes tables and figures from the results of `experiments.convergence`.

    python -m experiments.summarize                                             # of configs/convergence.toml
    python -m experiments.summarize experiments/configs/training_breaks.toml
    python -m experiments.summarize --size large

For a study whose results are NAME.jsonl it writes beside them:

    NAME.md                       final metric, how it compares with float32's, learning rates, and bytes
    NAME-4.png                    the final metrics of all compressors minus float32's, with 4 workers
    NAME-4-block-fixed-point.png  the training loss in block fixed point beside that in float32
    NAME-WORKLOAD-4.png           the metric over the steps, minus float32's, for each workload
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from experiments import figures, grid, rates, records, statistics, study_file
from experiments.grid import Grid
from experiments.paper import TABLE4
from experiments.recorded import (
    BASELINE,
    Groups,
    Record,
    final_scores,
    grouped,
    largest_loss_difference,
    with_changes,
)
from experiments.records import Setting
from experiments.verdicts import Beside, beside_baseline, contrasts


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


def table(recorded: Sequence[Record], study: Grid, tuned: Mapping[str, Record]) -> str:
    """Returns the summary as Markdown.

    Args:
      recorded: the study's results.
      study: says the margins and how rates were searched.
      tuned: the records of searches, by id.
    """
    lines = []
    for case, by_compressor in grouped(recorded).items():
        first = next(iter(by_compressor.values()))[0]
        outcome, setting = first["outcome"], first["setting"]
        better = "higher" if outcome["higher_is_better"] else "lower"
        baseline = by_compressor.get(BASELINE, [])
        margin = study.margins[case.workload]
        lines += [
            f"## {case}",
            "",
            (
                f"{outcome['metric']} on the test split ({better} is better) after {setting['steps']} steps, "
                f"{outcome['parameters']:,} parameters; mean ± standard deviation over seeds. The margin is {margin:g}."
                + _incomplete(study.lacking(by_compressor))
                + _outdated(by_compressor)
            ),
            "",
            (
                f"| compressor | rate | runs | {outcome['metric']} | minus float32 | p | verdict | loss differs by | "
                "sent, bytes a step | received | paper |"
            ),
            "|---|---:|---:|---|---|---:|---|---:|---:|---:|---|",
        ]
        beside = beside_baseline(by_compressor, margin)
        nothing = Beside((), "")
        for spec in figures.ordered(by_compressor):
            runs = by_compressor[spec]
            lines.append(
                " | ".join(
                    [
                        f"| `{spec}`",
                        ", ".join(sorted({f"x {run['setting']['learning_rate_scale']:g}" for run in runs})),
                        str(len(runs)),
                        cell(runs),
                        beside.get(spec, nothing).interval,
                        _p_value(beside.get(spec, nothing).corrected),
                        beside.get(spec, nothing).verdict,
                        f"{100 * largest_loss_difference(runs, baseline):.2g} %",
                        f"{_mean(runs, 'sent'):,.0f}",
                        f"{_mean(runs, 'received'):,.0f}",
                        TABLE4.get(case.workload, {}).get(spec, "") + " |",
                    ]
                )
            )
        lines += ["", *_searches(by_compressor, study, tuned), ""]
    for one, other in study.pairs:
        lines += _pair(grouped(recorded), study, one, other)
    return "\n".join([*lines, _note(study)])


def _pair(groups: Groups, study: Grid, one: str, other: str) -> list[str]:
    """Returns the section on two compressors beside each other."""
    found = contrasts(groups, study.margins, one, other)
    if not found:
        return []
    lines = [
        f"## `{one}` beside `{other}`",
        "",
        (
            f"`{one}` minus `{other}`, paired by seed, each at its rate of above. Holm's correction is over the "
            f"{len(found)} rows, a family of their own. *p* is of the test for a difference."
        ),
        "",
        "| workload | metric | margin | difference | p, alone | p, corrected | verdict |",
        "|---|---|---:|---|---:|---:|---|",
    ]
    for case, contrast in found.items():
        outcome = groups[case][one][0]["outcome"]
        better = "higher" if outcome["higher_is_better"] else "lower"
        lines.append(
            f"| {case} | {outcome['metric']} ({better} is better) | {study.margins[case.workload]:g} | "
            f"{contrast.interval} | {_p_value(contrast.p)} | {_p_value(contrast.corrected)} | {contrast.verdict} |"
        )
    return [*lines, ""]


def _outdated(by_compressor: Mapping[str, list[Record]]) -> str:
    """Returns a sentence on what has changed since the runs; empty if nothing has."""
    changed = {spec: grid.outdated(runs[0]) for spec, runs in by_compressor.items()}
    if "the workload" in changed.values():
        names = "the workload"
    else:
        names = ", ".join(f"`{spec}`" for spec, what in changed.items() if what)
    return f" **Outdated:** {names} changed after these runs, which will be made again." if names else ""


def _incomplete(lacking: Sequence[str]) -> str:
    if not lacking:
        return ""
    names = ", ".join(f"`{spec}`" for spec in lacking)
    return f" **Incomplete:** not all runs are made yet of {names}. Verdicts are corrected for those that are here."


def _searches(by_compressor: Mapping[str, list[Record]], study: Grid, tuned: Mapping[str, Record]) -> list[str]:
    """Returns the table of a case's searches: the mean score on the validation split at each multiple."""
    if len(study.rates.scales) == 1:
        return ["No learning rate was searched."]
    found = {
        spec: study.rates.scores(Setting(**by_compressor[spec][0]["setting"]), tuned)
        for spec in figures.ordered(by_compressor)
    }
    open_ = [spec for spec in found if study.rates.missing(Setting(**by_compressor[spec][0]["setting"]), tuned)]
    scales = sorted({scale for scores in found.values() for scale in scores})
    outcome = next(iter(by_compressor.values()))[0]["outcome"]
    lines = [
        (
            f"{outcome['metric']} on the validation split, at multiples of the workload's learning rate. Each multiple "
            f"has {study.rates.seeds} run(s), with seeds that no result uses. The best one is chosen."
            + (" A dash: the search is not over, and the rate is of one with fewer runs." if open_ else "")
        ),
        "",
        "| compressor | " + " | ".join(f"x {scale:g}" for scale in scales) + " |",
        "|---|" + "---:|" * len(scales),
    ]
    for spec, scores in found.items():
        shown = {scale: "-" if spec in open_ else _score(score) for scale, score in scores.items()}
        cells = [shown.get(scale, "") for scale in scales]
        lines.append(f"| `{spec}` | " + " | ".join(cells) + " |")
    return lines


def _score(score: float) -> str:
    return "diverges" if np.isnan(score) else f"{score:.4g}"


def _p_value(p: float) -> str:
    return "" if np.isnan(p) else f"{p:.2g}"


def _note(study: Grid) -> str:
    searched = len(study.rates.scales) > 1
    how = "the compressor got, chosen by the validation split" if searched else "all got; none was searched"
    return f"""\
*Rate*: the multiple of the workload's learning rate that {how}.
*Minus float32*: the mean over seeds of the difference from `none` with the same seed, ± half its 95 % confidence
interval. *p*: of the test for a difference. *Verdict*: by paired tests at the level {statistics.LEVEL}. Both have
Holm's correction over the compressors that this study has for a workload and a number of workers
(`experiments/statistics.py`). "equivalent": the difference is smaller than the margin, which the study's file says.
"better", "worse": it is not 0. "undecided": neither was found, which does not mean that there is no difference. With
fewer than {statistics.FEWEST_SEEDS} seeds there is no verdict. *Loss differs by*: the largest relative difference of
the training loss of any recorded window of steps from `none`'s with the same seed. *Paper*: the SwitchML paper's table
4, another model on other data: compare the order, not the numbers. A name that ends in `-ef` is that compressor without
its error feedback.
"""


def _mean(runs: Sequence[Record], name: str) -> float:
    return float(np.mean([run["outcome"][name] for run in runs]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("configs", nargs="*", type=Path, default=[grid.DEFAULT])
    parser.add_argument("--size", choices=["small", "large"], default="small")
    options = parser.parse_args()
    with study_file.one_line():
        studies = [Grid.read(config) for config in options.configs]
    for study in studies:
        summarize(dataclasses.replace(study, size=options.size))


def summarize(study: Grid) -> None:
    """Writes the tables and figures of a study, if it has results."""
    file, runs = study.file, study.recorded()
    if not runs:
        print(f"{file} has no runs yet")
        return
    text = f"# {file.stem}\n\nWritten by `python -m experiments.summarize`. {len(runs)} runs, "
    text += f"{with_changes(runs)} of them with uncommitted changes. {records.made_with(runs)}\n\n"
    file.with_suffix(".md").write_text(text + table(runs, study, records.by_id(rates.FILE)))
    # Figures show differences from float32: a case without it has none, and one with float32 alone has none either.
    groups = {
        case: by_compressor
        for case, by_compressor in grouped(runs).items()
        if final_scores(by_compressor.get(BASELINE, [])) and len(by_compressor) > 1
    }
    if not groups:
        print(f"{file}: no workload has runs of {BASELINE} and of another compressor, so there are no figures")
        return
    drawn = {}
    for workers in sorted({case.workers for case in groups}):
        alike = {case: runs for case, runs in groups.items() if case.workers == workers}
        drawn[f"-{workers}"] = figures.finals(alike, study.margins)
        if with_int32 := {case: runs for case, runs in alike.items() if "int32" in runs}:
            drawn[f"-{workers}-block-fixed-point"] = figures.block_fixed_point(with_int32)
    for case, runs in groups.items():
        drawn[f"-{case.workload}-{case.workers}"] = figures.metric_over_steps(case, runs, study.margins[case.workload])
    for ending, figure in drawn.items():
        figure.savefig(file.with_name(f"{file.stem}{ending}.png"), dpi=110)
        plt.close(figure)
    print(file.with_suffix(".md"))


if __name__ == "__main__":
    main()
