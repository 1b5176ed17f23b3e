"""Paired tests, on differences worked by hand and on simulated runs where the truth is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from experiments import statistics
from jaxina.errors import InvalidArgumentError

EXPERIMENTS = 1000
LEVEL = statistics.LEVEL


def simulated_differences(seed: int, seeds: int = 5, spread: float = 0.5) -> np.ndarray:
    """Returns differences of two identical methods: [experiments, seeds]."""
    rng = np.random.default_rng(seed)
    a, b = np.moveaxis(statistics.simulated_scores(rng, EXPERIMENTS, 2, seeds, spread), 1, 0)
    return a - b


def check_rate(p_values: list[float], expected: float) -> None:
    """The share of rejections is within two standard errors of what is expected."""
    rate = np.mean(np.array(p_values) <= LEVEL)
    assert abs(rate - expected) <= 2 * math.sqrt(expected * (1 - expected) / EXPERIMENTS), rate


def test_identical_methods_are_called_different_as_often_as_the_level_says():
    check_rate([statistics.compare(d, 1.0).different for d in simulated_differences(0)], LEVEL)


def test_methods_that_differ_by_the_margin_are_called_equivalent_as_often_as_the_level_says():
    shifted = simulated_differences(1) + 1.0
    check_rate([statistics.compare(d, 1.0).equivalent for d in shifted], LEVEL)
    check_rate([statistics.compare(-d, 1.0).equivalent for d in shifted], LEVEL)


@pytest.mark.parametrize("seeds, spread", [(5, 0.5), (5, 1.0), (10, 0.5)])
def test_power_at_half_the_margin_is_what_is_computed(seeds, spread):
    halfway = simulated_differences(2, seeds, spread) + 0.5
    expected = statistics.power(seeds, spread, 1.0, 0.5)
    assert 0.1 < expected < 0.95
    check_rate([statistics.compare(d, 1.0).equivalent for d in halfway], expected)


def test_a_family_of_identical_methods_raises_a_false_alarm_no_more_often_than_the_level_says():
    """Its methods share one baseline. Without a correction the rate is several times the level."""
    scores = statistics.simulated_scores(np.random.default_rng(3), EXPERIMENTS, 9, 5, 0.5)
    families = [[statistics.compare(method - one[0], 1.0).different for method in one[1:]] for one in scores]
    corrected = np.mean([min(statistics.holm(family)) <= LEVEL for family in families])
    assert corrected <= LEVEL + 2 * math.sqrt(LEVEL * (1 - LEVEL) / EXPERIMENTS)
    assert np.mean([min(family) <= LEVEL for family in families]) > 3 * LEVEL


def test_p_values_are_those_of_scipy():
    differences = [0.3, -0.1, 0.2, 0.4, 0.05, 0.1]
    found = statistics.compare(differences, 0.5)
    assert found.different == pytest.approx(stats.ttest_1samp(differences, 0).pvalue)
    lower = stats.ttest_1samp(differences, -0.5, alternative="greater").pvalue
    upper = stats.ttest_1samp(differences, 0.5, alternative="less").pvalue
    assert found.equivalent == pytest.approx(max(lower, upper))
    interval = stats.ttest_1samp(differences, 0).confidence_interval(0.95)
    assert found.mean + statistics.half_interval(differences) == pytest.approx(interval.high)


def test_holm_by_hand():
    """Sorted: 0.01 x 4, 0.02 x 3, 0.03 x 2 (no less than before it), 0.04 x 1 (the same)."""
    assert statistics.holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert statistics.holm([0.9, 0.8]) == [1.0, 1.0]
    assert statistics.holm([]) == []


def test_equal_differences_have_no_spread_to_test_with():
    assert statistics.compare([0.0] * 5, 0.1) == statistics.Comparison(0.0, different=1.0, equivalent=0.0)
    assert statistics.compare([0.5] * 5, 0.1) == statistics.Comparison(0.5, different=0.0, equivalent=1.0)


def test_verdicts():
    small = statistics.Comparison(-0.001, different=0.001, equivalent=0.0001)
    large = statistics.Comparison(-0.5, different=0.001, equivalent=1.0)
    unknown = statistics.Comparison(0.1, different=0.03, equivalent=0.5)  # alone it would be enough
    dull = statistics.Comparison(0.0, different=0.9, equivalent=0.5)
    family = [small, large, unknown, dull]
    assert statistics.verdicts(family, True) == [
        "equivalent, though worse",
        "different: worse",
        "undecided",
        "undecided",
    ]
    assert statistics.verdicts(family, False) == [
        "equivalent, though better",
        "different: better",
        "undecided",
        "undecided",
    ]
    assert statistics.verdicts([unknown], True) == ["different: better"]


@pytest.mark.parametrize(
    "differences, margin, why",
    [
        ([0.1] * 4, 1.0, "at least 5"),
        ([0.1] * 4 + [math.nan], 1.0, "at least 5 finite"),
        ([0.1] * 5, 0.0, "margin"),
        ([0.1] * 5, math.inf, "margin"),
    ],
)
def test_what_cannot_be_tested_is_refused(differences, margin, why):
    with pytest.raises(InvalidArgumentError, match=why):
        statistics.compare(differences, margin)
