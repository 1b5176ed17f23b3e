"""How far "who is fastest" depends on what was measured with an error: the costs of compression, and the seeds."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments.recorded import BASELINE, Record
from experiments.ways import Costs, Way, fastest, ways

FACTORS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)
DRAWS = 200

Chances = dict[float, dict[str, float]]
"""speed in Gbit/s -> compressor -> in which share of DRAWS it is the fastest, the most frequent first."""


def by_factor(found: Sequence[Way], gbps: float) -> dict[float, str]:
    """Returns which compressor is fastest if all costs of compression are so many times what was measured."""
    return {factor: fastest([way.with_cost(factor) for way in found], gbps).spec for factor in FACTORS}


def by_chance(
    by_compressor: Mapping[str, Sequence[Record]],
    costs: Costs,
    at_papers_size: bool,
    speeds: Sequence[float],
    rng: np.random.Generator,
    factor: float = 1.0,
) -> Chances:
    """Returns how often each compressor is fastest if the measurements are drawn again.

    A draw takes as many seeds as there are, with replacement and the same ones for all compressors, and one of the
    measured repetitions of each cost, multiplied by `factor`.
    """
    won: dict[float, collections.Counter[str]] = {speed: collections.Counter() for speed in speeds}
    seeds = sorted(set.intersection(*({r["setting"]["seed"] for r in runs} for runs in by_compressor.values())))
    runs_of = {spec: {run["setting"]["seed"]: run for run in runs} for spec, runs in by_compressor.items()}
    for _ in range(DRAWS):
        chosen = rng.choice(seeds, len(seeds))
        drawn = {spec: [runs[seed] for seed in chosen] for spec, runs in runs_of.items()}
        again = {name: _drawn(measured, rng) for name, measured in costs.items()}
        found = [way.with_cost(factor) for way in ways(drawn, again, at_papers_size)]
        for speed in speeds:
            won[speed][fastest(found, speed).spec] += 1
    return {speed: {spec: count / DRAWS for spec, count in of.most_common()} for speed, of in won.items()}


def _drawn(measured: Any, rng: np.random.Generator) -> Any:
    """Returns the same with one of the repetitions, wherever there are some, as the median."""
    if not isinstance(measured, Mapping):
        return measured
    if "repetitions" in measured:
        return {"median": float(rng.choice(measured["repetitions"]))}
    return {name: _drawn(values, rng) for name, values in measured.items()}


@dataclasses.dataclass(frozen=True)
class Lead:
    """How wrong the measured cost of a single compressor may be before another one is the fastest.

    Attributes:
      spec: the fastest.
      above, then: if its own cost alone is more than `above` times what was measured, `then` is the fastest. Infinity
        and None if no factor changes that.
      below, rival: if the cost of `rival` alone is less than `below` times what was measured, `rival` is the fastest.
        Of all rivals, the one that needs the least error. 0 and None if none gets there even free of cost.
    """

    spec: str
    above: float
    then: str | None
    below: float
    rival: str | None


def lead(found: Sequence[Way], gbps: float) -> Lead:
    """Returns who is the fastest, and how certainly so."""
    first = fastest(found, gbps)
    rivals = [way for way in found if way.spec != first.spec and way.steps is not None]
    own, above, then = _costing(first), np.inf, None
    if rivals and own > 0:
        second = fastest(rivals, gbps)
        above, then = 1 + (second.seconds(gbps) - first.seconds(gbps)) / own, second.spec
    below, rival = 0.0, None
    for way in rivals:
        spare = first.seconds(gbps) - way.with_cost(0.0).seconds(gbps)
        if spare > 0 and spare / _costing(way) > below:
            below, rival = spare / _costing(way), way.spec
    return Lead(first.spec, float(above), then, float(below), rival)


@dataclasses.dataclass(frozen=True)
class Allowance:
    """What a ring's own additions and copies may cost a core before another way is as fast. They are not counted.

    Attributes:
      ns: for an element, 0 if another way is faster anyway.
      spec: the other way.
    """

    ns: float
    spec: str


def rings_allowance(found: Sequence[Way], gbps: float) -> Allowance | None:
    """Returns what the ring's own work may cost, in the paper's sizes; None if only the ring reaches the target."""
    ring = next(way for way in found if way.spec == BASELINE)
    others = [way for way in found if way is not ring and way.steps is not None]
    if not others or ring.profile is None or ring.steps is None:
        return None
    second = fastest(others, gbps)
    spare_s = max(0.0, second.seconds(gbps) - ring.seconds(gbps))
    return Allowance(spare_s / ring.steps / ring.profile.elements * 1e9, second.spec)


def _costing(way: Way) -> float:
    """The seconds of all the way that are compression."""
    return (way.steps or 0.0) * way.compression_s
