"""One way of training in a cluster, from the first gradient to the last."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import simpy

from experiments.fabric.conditions import Cluster, Conditions
from experiments.fabric.learner import AnyLearner


@dataclasses.dataclass
class Outcome:
    """What a way of training did.

    Attributes:
      way: its name.
      seconds: virtual time.
      first_commit: the second of the first commit.
      gradients: how many the model got.
      dropped: how many were computed and never used.
      ages: of each update: how many others the model got meanwhile.
      scores: (virtual seconds, gradients, score), in the order of time.
    """

    way: str
    seconds: float = 0.0
    first_commit: float = math.inf
    gradients: int = 0
    dropped: int = 0
    ages: list[int] = dataclasses.field(default_factory=list)
    scores: list[tuple[float, int, float]] = dataclasses.field(default_factory=list)

    def rounds_per_second(self, workers: int) -> float:
        """How often the model got as many gradients as there are workers."""
        return self.gradients / workers / self.seconds

    def reached(self, target: float, higher_is_better: bool = True) -> float | None:
        """The first virtual second at which the score was as good as the target. None if never."""
        sign = 1 if higher_is_better else -1
        return next((t for t, _, score in self.scores if sign * score >= sign * target), None)


class Race:
    """What all ways of training share: the clock, the cluster, the model and the record.

    Args:
      way: a name for the outcome.
      cluster, seed: see `Conditions`.
      learner: the model.
      gradients: the race ends when the model has got so many.
      score_every: gradients from one score to the next.
      conditions: makes the cluster of this race.
    """

    def __init__(
        self,
        way: str,
        cluster: Cluster,
        seed: int,
        learner: AnyLearner,
        gradients: int,
        score_every: int,
        conditions: Callable[[simpy.Environment, Cluster, int], Conditions] = Conditions,
    ) -> None:
        self.env = simpy.Environment()
        self.cluster = cluster
        self.conditions = conditions(self.env, cluster, seed)
        self.learner = learner
        self.outcome = Outcome(way)
        self._most = gradients
        self._every = score_every
        self._over = self.env.event()

    def run(self, start: Callable[[Race], None], seconds: float) -> Outcome:
        """Runs until the model has all its gradients, or for so many virtual seconds."""
        start(self)
        self.env.run(self._over | self.env.timeout(seconds))
        self.outcome.seconds = self.env.now
        return self.outcome

    def compute(self, worker: int, steps: int = 1) -> simpy.Event:
        """The time of a worker's next computations."""
        return self.env.timeout(self.conditions.compute_seconds(worker, steps))

    def commit(self, changes: list[Any], versions: list[int], steps: int) -> None:
        """The server adds changes of so many steps each, which were computed from the versions beside them."""
        for change, version in zip(changes, versions, strict=True):
            self.outcome.ages.append(self.learner.version - version)
            self.learner.commit([change])
            self._committed(steps)

    def commit_round(self, changes: list[Any], steps: int) -> None:
        """The server adds changes that were all computed from its version."""
        self.outcome.ages += [0] * len(changes)
        self.learner.commit(changes)
        self._committed(steps * len(changes))

    def _committed(self, gradients: int) -> None:
        self.outcome.first_commit = min(self.outcome.first_commit, self.env.now)
        before, self.outcome.gradients = self.outcome.gradients, self.outcome.gradients + gradients
        if self._over.triggered:
            return
        if self.outcome.gradients // self._every > before // self._every:
            self.outcome.scores.append((self.env.now, self.outcome.gradients, self.learner.score()))
        if self.outcome.gradients >= self._most:
            self._over.succeed()


def mean_age(outcome: Outcome) -> float:
    """The mean age of the updates."""
    return float(np.mean(outcome.ages)) if outcome.ages else 0.0
