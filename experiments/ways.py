"""How long it takes to train to a target: steps from recorded runs, times of a step from bytes and costs.

A step takes

    computation + compression + 8 max(sent, received) / speed

where nothing overlaps. `none` is float32 in a ring, where a worker sends and receives 2 (n - 1) / n of the gradient.
All other compressors send and receive what the runs counted (in an all-gather a worker receives n - 1 payloads). The
target is the mean score of float32 after three quarters of the steps. The number of steps to it is read off the mean
curve, which is interpolated linearly between evaluations.

There are two scales. *Small* is the model that was trained here, with the costs measured here on one core. *Paper* is
the model of the SwitchML paper that ours imitates: its size and computation come from the paper's table 1, the ratio of
steps from our runs. The paper does not say which arrays a model has. So its costs and bytes for an element are those of
the largest matrix that `experiments.compression_cost` measures. PowerSGD has no place there, since its bytes depend on
the shapes: 0.2 % of float32's for a square matrix of 16.8 million elements, 25 % for an embedding of 16 columns. There
computation may hide communication, by the models of `experiments.emulator`.

What a ring's additions cost is not counted, as if the network's stack did them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments import emulator, paper
from experiments.recorded import BASELINE, Record, curve

_TARGET_AT = 0.75
_SENDS_BY_SHAPE = "powersgd"

NOTHING = "nothing"
OVERLAPS = (NOTHING, *emulator.MODELS)
"""What computation hides of the communication, in the paper's sizes."""

Costs = Mapping[str, Any]
"""What `experiments.compression_cost` measured."""


@dataclasses.dataclass(frozen=True)
class Way:
    """One way to train to the target.

    Attributes:
      spec: the compressor's spec.
      steps: the number of steps to the target, or None if the target is never reached.
      compute_s, compression_s: seconds of computation and of compression in a step.
      megabits: max(sent, received) in a step.
      profile: of the paper's model, at the paper's scale.
      volume: max(sent, received) in units of the model's size.
    """

    spec: str
    steps: float | None
    compute_s: float
    compression_s: float
    megabits: float
    profile: paper.Profile | None
    volume: float

    def seconds(self, gbps: float, overlap: str = NOTHING) -> float:
        """Returns the time to the target. It is infinite if the target is never reached.

        Args:
          gbps: the network's speed. Where something overlaps, a speed of the paper's table 1.
          overlap: one of OVERLAPS. Only the paper's scale has others than NOTHING.
        """
        if self.steps is None:
            return np.inf
        if overlap == NOTHING or self.profile is None:
            return self.steps * (self.compute_s + self.compression_s + self.megabits / (1e3 * gbps))
        overhead_ms = 1e3 * self.compression_s
        return self.steps * emulator.batch_ms(self.profile, int(gbps), self.volume, overhead_ms, overlap) / 1e3

    def with_cost(self, factor: float) -> Way:
        """Returns the same with another cost of compression."""
        return dataclasses.replace(self, compression_s=factor * self.compression_s)


def steps_to(target: float, higher_is_better: bool, runs: Sequence[Record]) -> float | None:
    """Returns the step at which the runs' mean curve first reaches the target, or None if it never does.

    Returns None also if a run diverged.
    """
    if any(run["outcome"]["diverged"] for run in runs):
        return None
    steps, mean, _, _ = curve(runs)
    return crossing(target, higher_is_better, steps, mean)


def crossing(target: float, higher_is_better: bool, steps: np.ndarray, scores: np.ndarray) -> float | None:
    """Returns the step at which a curve, int[n] and float[n], first reaches the target, or None if it never does."""
    sign = 1 if higher_is_better else -1
    reached = np.flatnonzero(sign * scores >= sign * target)
    if not reached.size:
        return None
    first = reached[0]
    if first == 0:
        return float(steps[0])
    share = (target - scores[first - 1]) / (scores[first] - scores[first - 1])
    return float(steps[first - 1] + share * (steps[first] - steps[first - 1]))


def target_of(runs: Sequence[Record]) -> float:
    """Returns the baseline's mean score after three quarters of its steps."""
    steps, mean, _, _ = curve(runs)
    return float(mean[np.searchsorted(steps, _TARGET_AT * steps[-1])])


def ways(by_compressor: Mapping[str, Sequence[Record]], costs: Costs, at_papers_size: bool) -> list[Way]:
    """Returns the ways of all compressors for a case, those whose cost was measured."""
    baseline = by_compressor[BASELINE]
    first = baseline[0]
    name, workers = first["setting"]["workload"], first["setting"]["workers"]
    parameters = first["outcome"]["parameters"]
    target, higher = target_of(baseline), first["outcome"]["higher_is_better"]
    profile = paper.PROFILES[paper.COUSINS[name]] if at_papers_size else None
    elements = profile.elements if profile else parameters
    compute_ms = _computation_ms(profile) if profile else costs["gradient_ms"][name]["median"]
    found = []
    for spec, runs in by_compressor.items():
        if spec not in costs["compression_ns"] or (at_papers_size and spec.partition(":")[0] == _SENDS_BY_SHAPE):
            continue
        counted = {way: np.mean([run["outcome"][way] for run in runs]) / parameters for way in ("sent", "received")}
        an_element = max((costs["traffic"][spec] if at_papers_size else counted).values())
        if spec == BASELINE:
            an_element *= 2 * (workers - 1) / workers
        # What jaxina's own codec does in a job is its cost there, not that of the same in JAX.
        cost = costs["native_ns"].get(spec, costs["compression_ns"][spec])
        cost_ns = 0.0 if spec == BASELINE else cost_at(cost, elements)
        found.append(
            Way(
                spec,
                steps_to(target, higher, runs),
                compute_s=compute_ms / 1e3,
                compression_s=cost_ns / 1e9 * elements,
                megabits=8 * an_element / 1e6 * elements,
                profile=profile,
                volume=float(an_element) / 4,
            )
        )
    return found


def cost_at(measured: Mapping[str, Any], elements: float) -> float:
    """Returns the nanoseconds for an element in a model of so many.

    Args:
      measured: by an array's elements, "median". Between two sizes the cost is interpolated over their logarithms.
        Beyond them it is that of the nearest.
      elements: of the model.
    """
    sizes = sorted(measured, key=int)
    costs = [measured[size]["median"] for size in sizes]
    return float(np.interp(np.log(elements), np.log([int(size) for size in sizes]), costs))


def fastest(found: Sequence[Way], gbps: float, overlap: str = NOTHING) -> Way:
    """Returns the way that reaches the target first."""
    return min(found, key=lambda way: way.seconds(gbps, overlap))


def _computation_ms(profile: paper.Profile) -> float:
    """Returns what a batch of table 1 takes besides its communication, at the higher speed."""
    measured = profile.at[max(paper.SPEEDS)]
    return measured.batch_ms - measured.communication_ms + measured.hidden_ms
