"""Chooses a learning rate for each compressor, by the validation split alone.

A `Search` trains at multiples of the workload's rate, with seeds that no result uses. It takes the multiple with the
best mean score on the validation split at the end of training. While the best one is the smallest or the largest that
was tried, the next one beyond it is tried, too. All its runs are recorded in results/tuning.jsonl, where the studies
share them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from experiments.records import RESULTS, Setting
from experiments.workloads import VALIDATION
from jaxina.errors import InvalidArgumentError

FILE = RESULTS / "tuning.jsonl"
FIRST_SEED = 100
"""Studies use the seeds 0, 1, ... below it."""


@dataclasses.dataclass(frozen=True)
class Search:
    """A search for a learning rate.

    Attributes:
      scales: the multiples that are always tried, rising by a constant factor. With a single one, nothing is searched.
      seeds: how many runs each multiple gets.
      smallest, largest: how far a search may go.

    Raises:
      InvalidArgumentError: the scales are none, not positive or not rising by one factor, or there are no seeds.
    """

    scales: tuple[float, ...] = (0.5, 1.0, 2.0)
    seeds: int = 2
    smallest: float = 1 / 64
    largest: float = 16.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "scales", tuple(self.scales))
        factors = [b / a for a, b in zip(self.scales, self.scales[1:], strict=False) if a > 0]
        even = all(factor > 1 and math.isclose(factor, factors[0]) for factor in factors)
        if not self.scales or min(self.scales) <= 0 or not even or self.seeds < 1:
            raise InvalidArgumentError(
                f"the scales must be positive and rise by one factor, with a seed or more, not {self}"
            )

    def missing(self, run: Setting, found: Mapping[str, dict[str, Any]]) -> list[Setting]:
        """Returns the runs that the search needs next; none if it is over.

        Args:
          run: a run of the study. Its seed and its rate do not matter.
          found: all records of searches, by id.
        """
        if len(self.scales) == 1:
            return []
        missing = []
        for scale in self._tried(run, found):
            missing += [setting for setting in self._settings(run, scale) if setting.id not in found]
        return missing

    def best(self, run: Setting, found: Mapping[str, dict[str, Any]]) -> float:
        """Returns the multiple that was chosen.

        Raises:
          InvalidArgumentError: the search is not over.
        """
        if missing := self.missing(run, found):
            raise InvalidArgumentError(f"{len(missing)} runs of the search are missing, the first is {missing[0]}")
        return self._best(run, found, self._tried(run, found))

    def scores(self, run: Setting, found: Mapping[str, dict[str, Any]]) -> dict[float, float]:
        """Returns the mean score of each multiple that was tried, NaN where a run diverged or is missing."""
        return {scale: self._score(run, found, scale) for scale in self._tried(run, found)}

    def settings(self, run: Setting, found: Mapping[str, dict[str, Any]]) -> dict[float, list[Setting]]:
        """Returns the runs of each multiple that was tried."""
        return {scale: self._settings(run, scale) for scale in self._tried(run, found)}

    def _tried(self, run: Setting, found: Mapping[str, dict[str, Any]]) -> list[float]:
        """Returns the multiples that are to be tried, as far as the records show. They rise."""
        scales = list(self.scales)
        if len(scales) == 1:
            return scales
        factor = scales[1] / scales[0]
        while all(setting.id in found for scale in scales for setting in self._settings(run, scale)):
            best = self._best(run, found, scales)
            if best == scales[0] and best / factor >= self.smallest:
                scales.insert(0, best / factor)
            elif best == scales[-1] and best * factor <= self.largest:
                scales.append(best * factor)
            else:
                break
        return scales

    def _best(self, run: Setting, found: Mapping[str, dict[str, Any]], scales: list[float]) -> float:
        """Returns the best of the scales, the smallest if all diverge."""
        if len(scales) == 1:
            return scales[0]
        outcome = found[self._settings(run, scales[0])[0].id]["outcome"]
        sign = 1 if outcome["higher_is_better"] else -1
        scores = [sign * self._score(run, found, scale) for scale in scales]
        return scales[int(np.argmax([-math.inf if math.isnan(score) else score for score in scores]))]

    def _score(self, run: Setting, found: Mapping[str, dict[str, Any]], scale: float) -> float:
        records = [found.get(setting.id) for setting in self._settings(run, scale)]
        scores = [record["outcome"]["scores"][-1][1] if record else None for record in records]
        return math.nan if None in scores else float(np.mean(scores))

    def _settings(self, run: Setting, scale: float) -> list[Setting]:
        return [
            dataclasses.replace(run, seed=FIRST_SEED + seed, learning_rate_scale=scale, split=VALIDATION)
            for seed in range(self.seeds)
        ]
