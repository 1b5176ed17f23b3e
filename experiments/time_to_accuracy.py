"""Computes which compressor reaches a target first at 1, 10 and 100 Gbit/s, from its bytes and its computing time.

    python -m experiments.compression_cost         # measures the cost of compression
    python -m experiments.time_to_accuracy         # writes results/time_to_accuracy.md and .png

The steps to the target and the bytes come from the runs recorded by `convergence`, the costs from `compression_cost`.
`experiments.ways` says how they become times. In the paper's sizes, compression costs either nothing (an accelerator
with time to spare) or what our core needs for each element. If a compressor wins only where compression is free, its
cost decides. `experiments.sensitivity` says how far the winners depend on errors of measurement.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from experiments import racers, sensitivity
from experiments.paper import COUSINS
from experiments.paper import SPEEDS as PAPERS_SPEEDS
from experiments.recorded import BASELINE, Case, Groups, final_scores, grouped
from experiments.records import RESULTS, made_with, when
from experiments.ways import OVERLAPS, Costs, Way, fastest, ways

SPEEDS = (1, 10, 100)  # Gbit/s
_SPEEDS = ", ".join(map(str, SPEEDS[:-1])) + f" and {SPEEDS[-1]}"
SMALL, PAPER, FREE = SCALES = ("small", "paper", "paper, free")

NAMED = 0.1
"""A compressor is named as the fastest if it is so in this share of the draws, or more."""

AllWays = Mapping[str, Mapping[Case, list[Way]]]
"""scale -> case -> ways."""

AllChances = Mapping[str, Mapping[Case, sensitivity.Chances]]
"""scale -> case -> how often a compressor is the fastest."""


def all_ways_of(groups: Groups, costs: Costs) -> AllWays:
    return {
        SMALL: {case: ways(runs, costs, False) for case, runs in groups.items()},
        PAPER: {case: ways(runs, costs, True) for case, runs in groups.items()},
        FREE: {case: [way.with_cost(0.0) for way in ways(runs, costs, True)] for case, runs in groups.items()},
    }


def all_chances_of(groups: Groups, costs: Costs) -> AllChances:
    rng = np.random.default_rng(2026)
    return {
        scale: {
            case: sensitivity.by_chance(runs, costs, scale != SMALL, SPEEDS, rng, 0.0 if scale == FREE else 1.0)
            for case, runs in groups.items()
        }
        for scale in SCALES
    }


def table(all_ways: AllWays, all_chances: AllChances) -> str:
    """Returns all ways as Markdown: steps to the target, speed-ups over float32 in a ring, and who is fastest."""
    by_case = all_ways[SMALL]  # steps are those of our runs on all scales
    reach = [spec for spec in _specs(by_case) if any(w.spec == spec and w.steps for f in by_case.values() for w in f)]
    never = [f"`{spec}`" for spec in _specs(by_case) if spec not in reach]
    lines = [
        "## Steps to the target",
        "",
        "Relative to float32's. A dash: never reached, or not run. "
        + (f"Nowhere reached by {', '.join(never)}." if never else ""),
        "",
        *_compared(by_case, reach, lambda way, ring: f"{way.steps / ring.steps:.2f}"),
    ]

    def speedups(way: Way, ring: Way) -> str:
        return " / ".join(f"{ring.seconds(gbps) / way.seconds(gbps):.2f}" for gbps in SPEEDS)

    for scale, by_case in all_ways.items():
        lines += [
            f"## {_TITLES[scale]}",
            "",
            f"Speed-up over float32 in a ring, in time to the target, at {_SPEEDS} Gbit/s.",
            "",
            *_compared(by_case, reach, speedups),
            (
                f"How often a compressor is the fastest, of {sensitivity.DRAWS} draws of the seeds and of the measured "
                f"costs. Those below {NAMED:.0%} are not named."
            ),
            "",
            "| fastest | " + " | ".join(f"{gbps} Gbit/s" for gbps in SPEEDS) + " |",
            "|---|" + "---|" * len(SPEEDS),
            *(
                f"| {case.workload} | " + " | ".join(_often(chances[gbps]) for gbps in SPEEDS) + " |"
                for case, chances in all_chances[scale].items()
            ),
            "",
        ]
    return "\n".join(lines)


def _often(shares: Mapping[str, float]) -> str:
    return ", ".join(f"`{spec}` {share:.0%}" for spec, share in shares.items() if share >= NAMED)


def _specs(by_case: Mapping[Case, list[Way]]) -> list[str]:
    return list(dict.fromkeys(way.spec for found in by_case.values() for way in found))


def _compared(by_case: Mapping[Case, list[Way]], specs: list[str], cell: Callable[[Way, Way], str]) -> list[str]:
    """Returns a table: a compressor in each row, a workload in each column, and `cell` of a way and float32's."""
    lines = ["| compressor | " + " | ".join(case.workload for case in by_case) + " |", "|---|" + "---:|" * len(by_case)]
    for spec in specs:
        cells = []
        for found in by_case.values():
            by_spec = {way.spec: way for way in found}
            way = by_spec.get(spec)
            cells.append(cell(way, by_spec[BASELINE]) if way is not None and way.steps is not None else "-")
        lines.append(f"| `{spec}` | " + " | ".join(cells) + " |")
    return [*lines, ""]


def overlaps(all_ways: AllWays) -> str:
    """Returns who is fastest in the paper's sizes if nothing overlaps, and by both models of the emulator."""
    lines = [
        "## What computation hides",
        "",
        (
            "The fastest in the paper's sizes, by the means, and its speed-up over float32 in a ring: if nothing "
            "overlaps, and if computation hides the same time or the same share of the communication as in the "
            "paper's table 1."
        ),
        "",
        "| cost | workload | Gbit/s | " + " | ".join(OVERLAPS) + " |",
        "|---|---|---:|" + "---|" * len(OVERLAPS),
    ]
    for scale in (PAPER, FREE):
        for case, found in all_ways[scale].items():
            ring = next(way for way in found if way.spec == BASELINE)
            for gbps in PAPERS_SPEEDS:
                cells = []
                for overlap in OVERLAPS:
                    best = fastest(found, gbps, overlap)
                    cells.append(f"`{best.spec}` {ring.seconds(gbps, overlap) / best.seconds(gbps, overlap):.2f}")
                cost = "free" if scale == FREE else "ours"
                lines.append(f"| {cost} | {case.workload} | {gbps} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", ""])


def if_costs_were_others(all_ways: AllWays) -> str:
    """Returns how far the winners depend on an error that all measured costs share, as Markdown."""
    lines = [
        "## If the costs were others",
        "",
        "The fastest, by the means, if all costs of compression are so many times what was measured.",
        "",
        "| scale | workload | Gbit/s | " + " | ".join(f"x {f:g}" for f in sensitivity.FACTORS) + " |",
        "|---|---|---:|" + "---|" * len(sensitivity.FACTORS),
    ]
    for scale in (SMALL, PAPER):
        for case, found in all_ways[scale].items():
            for gbps in SPEEDS:
                cells = [f"`{spec}`" for spec in sensitivity.by_factor(found, gbps).values()]
                lines.append(f"| {scale} | {case.workload} | {gbps} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


_TITLES = {
    "small": "The small models, cost of compression measured on one core",
    "paper": "The paper's sizes, our core's cost for each element",
    "paper, free": "The paper's sizes, compression free of cost",
}
_SHORT = {"small": "as trained here", "paper": "paper's size, our cost", "paper, free": "paper's size, no cost"}


def plot(all_ways: AllWays, file: Path) -> None:
    import matplotlib.pyplot as plt

    from experiments.figures import name, readable_log_scale
    from experiments.style import line

    speeds = np.geomspace(1, 100, 60)
    cases = list(all_ways[SMALL])
    reached = {way.spec for found in all_ways[SMALL].values() for way in found if way.steps is not None}
    specs = [spec for spec in SHOWN if spec in reached]
    figure, rows = plt.subplots(
        len(cases),
        len(all_ways),
        figsize=(3.6 * len(all_ways), 2.5 * len(cases) + 1.0),
        sharex=True,
        layout="constrained",
        squeeze=False,
    )
    for panels, case in zip(rows, cases, strict=True):
        for axes, (scale, by_case) in zip(panels, all_ways.items(), strict=True):
            by_spec = {way.spec: way for way in by_case[case]}
            for number, spec in enumerate(specs):
                way = by_spec.get(spec)
                if way is None or way.steps is None:
                    continue
                gain = [by_spec[BASELINE].seconds(s) / way.seconds(s) for s in speeds]
                axes.plot(speeds, gain, label=name(spec), **{**line(number), "markevery": 12})
            axes.set(xscale="log", xticks=SPEEDS, xticklabels=SPEEDS, title=f"{case.workload}, {_SHORT[scale]}")
            readable_log_scale(axes)
            axes.grid(alpha=0.3, which="both")
        panels[0].set_ylabel("speed-up over a ring")
    for axes in rows[-1]:
        axes.set_xlabel("network, Gbit/s")
    legends = [axes.get_legend_handles_labels() for axes in rows.flat]
    handles = {label: handle for legend in legends for handle, label in zip(*legend, strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4, fontsize=9)
    figure.suptitle("Time to what float32 reaches in three quarters of its steps; some of those that reach it")
    figure.savefig(file, dpi=100)
    plt.close(figure)


# At most so many that each has a colour of its own. The tables have all.
SHOWN = (BASELINE, "int32", "int8", "int8:stochastic", "int16", "thc", "dgc:momentum=0.0", "powersgd")


def main() -> None:
    groups = {
        case: runs
        for case, runs in grouped(racers.records()).items()
        if case.workload in COUSINS and final_scores(runs.get(BASELINE, []))
    }
    file = RESULTS / "compression_cost.json"
    if not groups or not file.exists():
        print(f"there are no recorded runs yet, or no {file}")
        return
    costs = json.loads(file.read_text())
    all_ways = all_ways_of(groups, costs)
    runs = [run for by_compressor in groups.values() for of in by_compressor.values() for run in of]
    text = [
        "# Time to accuracy",
        "",
        f"Written by `python -m experiments.time_to_accuracy`; its text says how. {racers.WORKERS} workers.",
        "",
        (
            f"Runs that ended {when(runs)}; the pages of the studies have their commits and machines. Costs of "
            f"compression: {made_with([costs])} The load average was {costs['load_average']:.1f} before."
        ),
        "",
        table(all_ways, all_chances_of(groups, costs)),
        overlaps(all_ways),
        if_costs_were_others(all_ways),
    ]
    (RESULTS / "time_to_accuracy.md").write_text("\n".join(text))
    plot(all_ways, RESULTS / "time_to_accuracy.png")
    print(RESULTS / "time_to_accuracy.md")


if __name__ == "__main__":
    main()
