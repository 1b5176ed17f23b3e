"""Compares the compressors of a case with float32, and two compressors with each other over the cases of a study."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

from experiments import statistics
from experiments.recorded import BASELINE, Case, Groups, Record, differences, final_scores, pairs
from experiments.statistics import Comparison

K = TypeVar("K", str, Case)


@dataclasses.dataclass(frozen=True)
class Beside:
    """A compressor beside the baseline, or beside another one.

    Attributes:
      differences: of the final scores, one for each seed.
      verdict: one of `statistics.verdicts`, or why there is none.
      p: of the test for a difference, alone; NaN without a verdict.
      corrected: the same with Holm's correction.
    """

    differences: tuple[float, ...]
    verdict: str
    p: float = np.nan
    corrected: float = np.nan

    @property
    def mean(self) -> float:
        """NaN without differences."""
        return float(np.mean(self.differences)) if self.differences else np.nan

    @property
    def interval(self) -> str:
        """The mean difference with half its confidence interval, as far as there are differences."""
        if not self.differences:
            return ""
        half = f" ± {statistics.half_interval(self.differences):.2g}" if len(self.differences) > 1 else ""
        return f"{self.mean:+.2g}{half}"


def beside_baseline(by_compressor: Mapping[str, list[Record]], margin: float) -> dict[str, Beside]:
    """Compares all compressors of a case with the baseline. They are one family for Holm's correction.

    So a family is what one study has for a workload and a number of workers: another study of the same methods corrects
    for other ones beside them.

    Returns:
      By compressor. Without a baseline, nothing.
    """
    baseline = by_compressor.get(BASELINE, [])
    found, family = {}, {}
    for spec, runs in by_compressor.items():
        if spec == BASELINE or not final_scores(baseline):
            continue
        away = tuple(differences(runs, baseline))
        why_not = _why_no_verdict(runs, baseline)
        found[spec] = Beside(away, why_not)
        if not why_not:
            family[spec] = statistics.compare(away, margin)
    higher = next(iter(by_compressor.values()))[0]["outcome"]["higher_is_better"]
    return found | _judged(found, family, higher)


def _judged(found: Mapping[K, Beside], family: Mapping[K, Comparison], higher_is_better: bool) -> dict[K, Beside]:
    """Returns the members of a family with their verdicts."""
    adjusted = statistics.holm([comparison.different for comparison in family.values()])
    words = statistics.verdicts(list(family.values()), higher_is_better)
    return {
        key: dataclasses.replace(found[key], verdict=verdict, p=family[key].different, corrected=corrected)
        for key, corrected, verdict in zip(family, adjusted, words, strict=True)
    }


def contrasts(groups: Groups, margins: Mapping[str, float], one: str, other: str) -> dict[Case, Beside]:
    """Compares a compressor with another one, in all cases that have both. These cases are one family for Holm's
    correction: one question is asked of each.

    Returns:
      By case. The differences are those of `one` minus `other`.
    """
    found, family = {}, {}
    for case, runs in groups.items():
        if not (runs.get(one) and runs.get(other)):
            continue
        away = tuple(differences(runs[one], runs[other]))
        why_not = _why_no_verdict(runs[one], runs[other])
        found[case] = Beside(away, why_not)
        if not why_not:
            # Metrics of which less is better change their sign, so that a family may have both kinds.
            sign = 1 if runs[one][0]["outcome"]["higher_is_better"] else -1
            family[case] = statistics.compare([sign * difference for difference in away], margins[case.workload])
    return found | _judged(found, family, higher_is_better=True)


def _why_no_verdict(runs: Sequence[Record], baseline: Sequence[Record]) -> str:
    """Returns why the paired tests cannot compare a compressor's runs with another's; empty if they can."""
    if any(len({run["setting"]["seed"] for run in of_one}) < len(of_one) for of_one in (runs, baseline)):
        return "search not over"  # so there are runs with several rates, and a seed would count several times
    if len({run["outcome"].get("base", "") for run in (*runs, *baseline)}) > 1:
        return "several bases"
    if len(final_scores(runs)) < len(runs):
        return "diverges"
    paired, found = pairs(runs, baseline), differences(runs, baseline)
    return "" if len(found) == len(paired) >= statistics.FEWEST_SEEDS else "too few seeds"
