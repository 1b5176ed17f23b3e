"""Tests of whether a method ends as another does, from runs that are paired by their seed.

    python -m experiments.statistics      # error rates and power, simulated where the truth is known

Runs of one seed have the same data, batches and initial values. So what is tested are the differences d_1 ... d_n of
the final scores, one for each of n seeds. They are taken as normal.

* **Different:** Student's paired t-test, two-sided. The hypothesis is that the expected difference is 0.
* **Equivalent:** two one-sided tests (TOST; Schuirmann, J. Pharmacokinetics and Biopharmaceutics 15, 1987). The
  hypothesis is that the expected difference is at least `margin` in magnitude. A small p-value says that it is not.
* **Many methods:** Holm's step-down correction (Scandinavian J. of Statistics 6, 1979). With probability 1 - level,
  none of a family's rejections is wrong.

That a test does not reject says nothing: a difference that is not found is not equivalence.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import integrate, special, stats

from jaxina.errors import InvalidArgumentError

LEVEL = 0.05
FEWEST_SEEDS = 5


@dataclasses.dataclass(frozen=True)
class Comparison:
    """A method beside a baseline.

    Attributes:
      mean: the mean difference.
      different: p-value of the t-test.
      equivalent: p-value of the two one-sided tests.
    """

    mean: float
    different: float
    equivalent: float


def compare(differences: Sequence[float], margin: float) -> Comparison:
    """Tests the differences of one method.

    If all differences are equal, there is no spread to test with. The p-values are then 0 or 1, as the mean says.

    Args:
      differences: one for each seed.
      margin: the largest difference that does not matter, above 0.

    Raises:
      InvalidArgumentError: there are fewer than `FEWEST_SEEDS` differences, one is not finite, or the margin is not a
        positive number.
    """
    if len(differences) < FEWEST_SEEDS or not np.isfinite(differences).all():
        raise InvalidArgumentError(f"at least {FEWEST_SEEDS} finite differences are needed, not {list(differences)}")
    if not 0 < margin < math.inf:
        raise InvalidArgumentError(f"the margin must be a positive number, not {margin}")
    mean, error = float(np.mean(differences)), standard_error(differences)
    if error == 0:
        return Comparison(mean, float(mean == 0), float(abs(mean) >= margin))
    upper, lower = special.stdtr(len(differences) - 1, [-abs(mean) / error, (abs(mean) - margin) / error])
    return Comparison(mean, different=float(2 * upper), equivalent=float(lower))


def standard_error(values: Sequence[float]) -> float:
    """Returns the standard error of the mean of two or more values."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


def half_interval(values: Sequence[float], level: float = LEVEL) -> float:
    """Returns half the width of the mean's confidence interval, of confidence 1 - level; infinite for one value."""
    if len(values) < 2:
        return math.inf
    return float(special.stdtrit(len(values) - 1, 1 - level / 2)) * standard_error(values)


def holm(p_values: Sequence[float]) -> list[float]:
    """Returns the p-values adjusted for a family of tests: reject where they are at most the level."""
    adjusted, largest = [1.0] * len(p_values), 0.0
    for rank, index in enumerate(np.argsort(p_values, kind="stable")):
        largest = max(largest, (len(p_values) - rank) * p_values[index])
        adjusted[index] = min(largest, 1.0)
    return adjusted


def verdicts(comparisons: Sequence[Comparison], higher_is_better: bool, level: float = LEVEL) -> list[str]:
    """Returns a word for each method of a family.

    The tests for differences are one family for Holm's correction, those for equivalence another.

    Returns:
      "equivalent", "different: better", "different: worse" or "undecided"; or "equivalent, though worse" (or better)
      for a difference that is there but smaller than the margin.
    """
    different = holm([c.different for c in comparisons])
    equivalent = holm([c.equivalent for c in comparisons])
    found = []
    for comparison, p_different, p_equivalent in zip(comparisons, different, equivalent, strict=True):
        direction = "better" if (comparison.mean > 0) == higher_is_better else "worse"
        if p_equivalent <= level:
            found.append("equivalent" + f", though {direction}" * (p_different <= level))
        else:
            found.append(f"different: {direction}" if p_different <= level else "undecided")
    return found


def power(seeds: int, spread: float, margin: float, difference: float, level: float = LEVEL) -> float:
    """Computes how likely one method, without Holm's correction, is found equivalent.

    With mean m and standard deviation s of n differences, `compare` finds equivalence where ``|m| <= margin - t s /
    sqrt(n)``. That has a normal probability for every s; it is integrated over the chi distribution of ``s sqrt(n - 1)
    / spread``.

    Args:
      seeds: n, at least 2.
      spread: standard deviation of the differences, above 0.
      margin: as in `compare`.
      difference: the true one.
      level: of the test.
    """
    error = spread / math.sqrt(seeds)
    quantile = special.stdtrit(seeds - 1, 1 - level)
    chi, normal = stats.chi(seeds - 1), stats.norm

    def given(u: float) -> float:
        reach = margin / error - quantile * u / math.sqrt(seeds - 1)
        return chi.pdf(u) * (normal.cdf(reach - difference / error) - normal.cdf(-reach - difference / error))

    most = margin / error * math.sqrt(seeds - 1) / quantile
    return float(integrate.quad(given, 0, min(most, chi.isf(1e-12)), limit=200)[0])


def simulated_scores(
    rng: np.random.Generator, experiments: int, methods: int, seeds: int, spread: float
) -> npt.NDArray[np.float64]:
    """Returns scores of identical methods: [experiments, methods, seeds].

    A score is the seed's own effect, normal with standard deviation 1, plus the method's noise, normal and such that
    differences of two methods have the standard deviation `spread`.
    """
    effects = rng.normal(size=(experiments, 1, seeds))
    return effects + rng.normal(scale=spread / math.sqrt(2), size=(experiments, methods, seeds))


def main() -> None:
    rng, experiments = np.random.default_rng(2026), 1000
    two_errors = 2 * math.sqrt(LEVEL * (1 - LEVEL) / experiments)
    print(f"{experiments} experiments each, {FEWEST_SEEDS} seeds, level {LEVEL} (± {two_errors:.3f}, two errors)")

    a, b = np.moveaxis(simulated_scores(rng, experiments, 2, FEWEST_SEEDS, 1.0), 1, 0)
    print(f"identical methods, paired t-test: {_rate([compare(d, 1.0).different for d in a - b]):.3f}")
    scores = simulated_scores(rng, experiments, 13, FEWEST_SEEDS, 1.0)
    families = [[compare(method - one[0], 1.0).different for method in one[1:]] for one in scores]
    print(f"twelve methods identical to one baseline, any alarm, alone: {_rate([min(f) for f in families]):.3f}")
    print(f"the same with Holm's correction: {_rate([min(holm(f)) for f in families]):.3f}")

    print("| seeds | spread / margin | true difference / margin | found equivalent | computed |\n|---|---|---|---|---|")
    for seeds in (5, 10, 20):
        for spread in (0.25, 0.5, 1.0):
            for difference in (1.0, 0.5, 0.0):
                a, b = np.moveaxis(simulated_scores(rng, experiments, 2, seeds, spread), 1, 0)
                rate = _rate([compare(d + difference, 1.0).equivalent for d in a - b])
                print(
                    f"| {seeds} | {spread} | {difference} | {rate:.3f} | {power(seeds, spread, 1.0, difference):.3f} |"
                )


def _rate(p_values: Sequence[float]) -> float:
    return float(np.mean(np.array(p_values) <= LEVEL))


if __name__ == "__main__":
    main()
