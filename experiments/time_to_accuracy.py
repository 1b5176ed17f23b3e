"""Computes which compressor reaches a target first at 1, 10 and 100 Gbit/s, from its bytes and its computing time.

    python -m experiments.compression_cost         # measures the cost of compression
    python -m experiments.time_to_accuracy         # writes results/time_to_accuracy.md and .png

The steps to the target and the bytes come from the runs recorded by `convergence`, the costs from `compression_cost`.
`experiments.ways` says how they become times. In the paper's sizes, compression costs either nothing (an accelerator
with time to spare) or what our core needs for an element of a large array. If a compressor wins only where compression
is free, its cost decides. `experiments.sensitivity` says how far the winners depend on errors of measurement.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from experiments import racers, sensitivity, time_tables
from experiments.paper import COUSINS
from experiments.recorded import BASELINE, Groups, final_scores, grouped
from experiments.records import RESULTS, made_with, when
from experiments.time_tables import FREE, PAPER, SCALES, SMALL, SPEEDS, AllChances, AllWays
from experiments.ways import Costs, ways


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
            f"compression: {made_with([costs])} The load average was {costs['load_average']:.1f} at "
            f"the end, this program's own 1 included. {costs['stolen']:.1%} of the cores' time were stolen."
        ),
        "",
        time_tables.costs_table(costs),
        time_tables.table(all_ways, all_chances_of(groups, costs)),
        time_tables.overlaps(all_ways),
        time_tables.if_costs_were_others(all_ways),
        time_tables.if_one_cost_were_another(all_ways),
        time_tables.if_the_ring_cost_something(all_ways),
    ]
    (RESULTS / "time_to_accuracy.md").write_text("\n".join(text))
    plot(all_ways, RESULTS / "time_to_accuracy.png")
    print(RESULTS / "time_to_accuracy.md")


if __name__ == "__main__":
    main()
