"""Computes which compressor reaches a target first at 1, 10 and 100 Gbit/s, from its bytes and its computing time.

    python -m experiments.compression_cost         # measures the cost of compression
    python -m experiments.time_to_accuracy         # writes results/time_to_accuracy.md and .png

The steps to the target and the bytes come from the runs recorded by `convergence`, the costs from `compression_cost`. A
step takes

    computation + compression + 8 max(sent, received) / speed

Nothing overlaps. `none` is float32 in a ring, where a worker sends and receives 2 (n - 1) / n of the gradient. All
other compressors send and receive what the runs counted (in an all-gather a worker receives n - 1 payloads). The target
is the mean score of float32 after three quarters of the steps. The number of steps to it is read off the mean curve,
which is interpolated linearly between evaluations.

There are two scales. *Small* is the model that was trained here, with the costs measured here on one core. *Paper* is
the model of the SwitchML paper that ours imitates: its size and computation come from the paper's table 1 (100 Gbit/s),
the bits per element and the ratio of steps from our runs. Its compression costs either nothing (an accelerator with
time to spare) or what our core needs for each element. If a compressor wins only where compression is free, its cost
decides.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np

from experiments import paper
from experiments.recorded import BASELINE, Record, curve, grouped
from experiments.records import RESULTS, read

SPEEDS = (1, 10, 100)  # Gbit/s
COUSINS = {"ncf": "NCF", "clickthrough": "DeepLight", "lstm": "LSTM", "vgg": "VGG19"}
_TARGET_AT = 0.75


@dataclasses.dataclass(frozen=True)
class Way:
    """One way to train to the target.

    Attributes:
      spec: the compressor's spec.
      steps: the number of steps to the target, or None if the target is never reached.
      compute_s, compression_s: seconds of computation and of compression in a step.
      megabits: max(sent, received) in a step.
    """

    spec: str
    steps: float | None
    compute_s: float
    compression_s: float
    megabits: float

    def seconds(self, gbps: float) -> float:
        """Returns the time to the target. It is infinite if the target is never reached."""
        if self.steps is None:
            return np.inf
        return self.steps * (self.compute_s + self.compression_s + self.megabits / (1e3 * gbps))


def steps_to(target: float, higher_is_better: bool, runs: list[Record]) -> float | None:
    """Returns the step at which the runs' mean curve first reaches the target, or None if it never does.

    Returns None also if a run diverged.
    """
    if any(run["outcome"]["diverged"] for run in runs):
        return None
    steps, mean, _, _ = curve(runs)
    sign = 1 if higher_is_better else -1
    reached = np.flatnonzero(sign * mean >= sign * target)
    if not reached.size:
        return None
    first = reached[0]
    if first == 0:
        return float(steps[0])
    share = (target - mean[first - 1]) / (mean[first] - mean[first - 1])
    return float(steps[first - 1] + share * (steps[first] - steps[first - 1]))


def target_of(runs: list[Record]) -> float:
    """Returns the baseline's mean score after three quarters of its steps."""
    steps, mean, _, _ = curve(runs)
    return float(mean[np.searchsorted(steps, _TARGET_AT * steps[-1])])


def ways(by_compressor: dict[str, list[Record]], costs: dict, scale: str) -> list[Way]:
    """Returns the ways of all compressors for a workload, at the scale "small", "paper" or "paper, free"."""
    baseline = by_compressor[BASELINE]
    first = baseline[0]
    name, workers = first["setting"]["workload"], first["setting"]["workers"]
    parameters = first["outcome"]["parameters"]
    target, higher = target_of(baseline), first["outcome"]["higher_is_better"]
    profile = paper.PROFILES[COUSINS[name]]
    elements = parameters if scale == "small" else profile.size_mb * 1e6 / 4
    measured = profile.at[100]
    found = []
    for spec, runs in by_compressor.items():
        if spec not in costs["compression_ns"]:
            continue
        traffic = max(np.mean([run["outcome"][way] for run in runs]) for way in ("sent", "received"))
        if spec == BASELINE:
            traffic *= 2 * (workers - 1) / workers
        found.append(
            Way(
                spec,
                steps_to(target, higher, runs),
                compute_s=(
                    costs["gradient_ms"][name]
                    if scale == "small"
                    else measured.batch_ms - measured.communication_ms + measured.hidden_ms
                )
                / 1e3,
                compression_s=0.0
                if spec == BASELINE or scale == "paper, free"
                else costs["compression_ns"][spec] / 1e9 * elements,
                megabits=8 * traffic / 1e6 * elements / parameters,
            )
        )
    return found


def table(all_ways: dict[str, dict[str, list[Way]]]) -> str:
    """Returns scale -> workload -> ways as Markdown: speed-ups over float32 in a ring, and the fastest compressors."""
    lines = ["# Time to accuracy", "", "Written by `python -m experiments.time_to_accuracy`; its text says how.", ""]
    for scale, by_workload in all_ways.items():
        lines += [
            f"## {_TITLES[scale]}",
            "",
            "Speed-up over float32 in a ring, in time to the target (its steps, relative to float32's, in front).",
            "",
            "| compressor | "
            + " | ".join(f"{w}: steps | " + " | ".join(f"{s}G" for s in SPEEDS) for w in by_workload)
            + " |",
            "|---|" + "---:|" * (4 * len(by_workload)),
        ]
        for spec in dict.fromkeys(way.spec for found in by_workload.values() for way in found):
            cells = []
            for found in by_workload.values():
                by_spec = {way.spec: way for way in found}
                ring, way = by_spec[BASELINE], by_spec.get(spec)
                if way is None or way.steps is None:
                    cells += ["-", *["-"] * len(SPEEDS)]
                else:
                    cells += [
                        f"{way.steps / ring.steps:.2f}",
                        *[f"{ring.seconds(gbps) / way.seconds(gbps):.2f}" for gbps in SPEEDS],
                    ]
            lines.append(f"| `{spec}` | " + " | ".join(cells) + " |")
        lines += [
            "",
            "Fastest: "
            + "; ".join(
                f"{workload} "
                + ", ".join(f"`{min(found, key=lambda way: way.seconds(gbps)).spec}` at {gbps}" for gbps in SPEEDS)
                for workload, found in by_workload.items()
            )
            + " (Gbit/s).",
            "",
        ]
    return "\n".join([*lines, "A dash: the target was never reached.", ""])


_TITLES = {
    "small": "The small models, cost of compression measured on one core",
    "paper": "The paper's sizes, our core's cost for each element",
    "paper, free": "The paper's sizes, compression free of cost",
}
_SHORT = {"small": "as trained here", "paper": "the paper's size, our cost", "paper, free": "the paper's size, no cost"}


def plot(all_ways: dict[str, dict[str, list[Way]]], file: Path) -> None:
    import matplotlib.pyplot as plt

    from experiments.figures import name, readable_log_scale
    from experiments.style import line

    speeds = np.geomspace(1, 100, 60)
    workloads = list(all_ways["small"])
    reached = {way.spec for found in all_ways["small"].values() for way in found if way.steps is not None}
    specs = [spec for spec in SHOWN if spec in reached]  # few enough that each has a colour of its own
    figure, rows = plt.subplots(
        len(all_ways),
        len(workloads),
        figsize=(3.3 * len(workloads), 3.1 * len(all_ways)),
        sharex=True,
        layout="constrained",
        squeeze=False,
    )
    for panels, (scale, by_workload) in zip(rows, all_ways.items(), strict=True):
        for axes, workload in zip(panels, workloads, strict=True):
            by_spec = {way.spec: way for way in by_workload[workload]}
            for number, spec in enumerate(specs):
                way = by_spec[spec]
                if way.steps is None:
                    continue
                gain = [by_spec[BASELINE].seconds(s) / way.seconds(s) for s in speeds]
                axes.plot(speeds, gain, label=name(spec), **{**line(number), "markevery": 12})
            axes.set(xscale="log", title=f"{workload}, {_SHORT[scale]}")
            readable_log_scale(axes)
            axes.grid(alpha=0.3, which="both")
        panels[0].set_ylabel("speed-up over float32, ring")
    for axes in rows[-1]:
        axes.set_xlabel("network, Gbit/s")
    legends = [axes.get_legend_handles_labels() for axes in rows.flat]
    handles = {label: handle for legend in legends for handle, label in zip(*legend, strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=5, fontsize=9)
    figure.suptitle("Time to what float32 reaches in three quarters of its steps; curves of those that reach it")
    figure.savefig(file, dpi=100)
    plt.close(figure)


SHOWN = (BASELINE, "int32", "int8:stochastic", "qsgd", "terngrad", "topk:ratio=0.1-ef", "topk-ef", "topk", "powersgd")


def main() -> None:
    groups = grouped(read(RESULTS / "convergence.jsonl"))
    costs = json.loads((RESULTS / "compression_cost.json").read_text())
    all_ways = {scale: {w: ways(groups[w], costs, scale) for w in COUSINS if w in groups} for scale in _TITLES}
    (RESULTS / "time_to_accuracy.md").write_text(table(all_ways))
    plot(all_ways, RESULTS / "time_to_accuracy.png")
    print(RESULTS / "time_to_accuracy.md")


if __name__ == "__main__":
    main()
