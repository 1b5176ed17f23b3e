"""How far "who is fastest" depends on what was measured with an error: the costs of compression, and the seeds."""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence

import numpy as np

from experiments.recorded import Record
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
        again = {
            name: _drawn(measured, rng) if isinstance(measured, dict) else measured for name, measured in costs.items()
        }
        found = [way.with_cost(factor) for way in ways(drawn, again, at_papers_size)]
        for speed in speeds:
            won[speed][fastest(found, speed).spec] += 1
    return {speed: {spec: count / DRAWS for spec, count in of.most_common()} for speed, of in won.items()}


def _drawn(measured: Mapping[str, Mapping], rng: np.random.Generator) -> dict[str, dict[str, float]]:
    return {
        name: {"median": float(rng.choice(values["repetitions"]))}
        for name, values in measured.items()
        if isinstance(values, Mapping) and "repetitions" in values
    }
