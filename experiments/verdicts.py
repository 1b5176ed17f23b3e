"""Compares the compressors of a case with float32."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from experiments import statistics
from experiments.recorded import BASELINE, Record, differences, final_scores, pairs


@dataclasses.dataclass(frozen=True)
class Beside:
    """A compressor beside the baseline.

    Attributes:
      differences: of the final scores, one for each seed.
      verdict: one of `statistics.verdicts`, or why there is none.
    """

    differences: tuple[float, ...]
    verdict: str

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
    for spec, verdict in zip(family, statistics.verdicts(list(family.values()), higher), strict=True):
        found[spec] = dataclasses.replace(found[spec], verdict=verdict)
    return found


def _why_no_verdict(runs: Sequence[Record], baseline: Sequence[Record]) -> str:
    """Returns why the paired tests cannot compare a compressor's runs with the baseline's; empty if they can."""
    if any(len({run["setting"]["seed"] for run in of_one}) < len(of_one) for of_one in (runs, baseline)):
        return "search not over"  # so there are runs with several rates, and a seed would count several times
    if len({run["outcome"].get("base", "") for run in (*runs, *baseline)}) > 1:
        return "several bases"
    if len(final_scores(runs)) < len(runs):
        return "diverges"
    paired, found = pairs(runs, baseline), differences(runs, baseline)
    return "" if len(found) == len(paired) >= statistics.FEWEST_SEEDS else "too few seeds"
