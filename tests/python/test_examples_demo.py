"""The demo's verdict: which results scripts/demo.py reports as failures."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
from pathlib import Path

import pytest

FILE = Path(__file__).resolve().parents[2] / "scripts" / "demo.py"


@pytest.fixture(scope="module")
def demo():
    spec = importlib.util.spec_from_file_location("demo", FILE)
    module = importlib.util.module_from_spec(spec)
    before = sys.path[:]
    sys.modules["demo"] = module  # because dataclasses looks up a class's module there
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path[:] = before
        for name in ("demo", "shared", "shared.report", "curves"):
            sys.modules.pop(name, None)


@pytest.fixture
def outcomes(demo):
    """The outcomes of a run of the demo without a failure."""

    def outcome(row):
        aggregated = row.collective == "jaxina"
        record = demo.RunRecord(
            collective=row.collective,
            seed=0,
            batch_size=128,
            steps=2,
            processes=4,
            devices=4,
            jax_version="0",
            loss=[2.0, 1.0],
            accuracy=[0.1, 0.5],
            step_seconds=[1.0, 0.02],
            test_accuracy=0.97,
            parameter_sha256="a" * 64 if aggregated else "b" * 64,
        )
        statistics = dict(
            packets_sent=100, packets_received=100, packets_dropped=2, retransmissions=2, bytes_of_8_bits=1000
        )
        return demo.Outcome(row, record, statistics if aggregated else {})

    return [outcome(row) for row in demo.ROWS]


def changed(outcomes, name, **values):
    index = [outcome.row.name for outcome in outcomes].index(name)
    outcome = outcomes[index]
    outcomes[index] = dataclasses.replace(outcome, record=dataclasses.replace(outcome.record, **values))


def test_equal_hashes_and_accuracies_pass(demo, outcomes) -> None:
    assert demo.problems(outcomes) == []


@pytest.mark.parametrize("name", ["embedded", "direct", "atp", "udp"])
def test_one_differing_hash_fails_and_is_named(demo, outcomes, name) -> None:
    changed(outcomes, name, parameter_sha256="c" * 64)
    (problem,) = demo.problems(outcomes)
    assert "parameters differ" in problem and f"{name} cccc" in problem


@pytest.mark.parametrize("accuracy", [0.955, 0.985])
def test_accuracy_more_than_a_point_off_fails(demo, outcomes, accuracy) -> None:
    changed(outcomes, "udp", test_accuracy=accuracy)
    (problem,) = demo.problems(outcomes)
    assert problem.startswith("udp: test accuracy is")


def test_narrow_words_have_their_own_parameters_and_half_the_margin(demo, outcomes) -> None:
    changed(outcomes, "udp 8 bits", parameter_sha256="c" * 64)
    assert demo.problems(outcomes) == []
    changed(outcomes, "udp 8 bits", test_accuracy=0.964)
    (problem,) = demo.problems(outcomes)
    assert problem.startswith("udp 8 bits: test accuracy is -0.6 points off")


def test_a_narrow_row_without_narrow_words_fails(demo, outcomes) -> None:
    next(outcome for outcome in outcomes if outcome.row.bits == 8).statistics["bytes_of_8_bits"] = 0
    (problem,) = demo.problems(outcomes)
    assert problem.startswith("udp 8 bits: no words of 8 bits were sent")


def test_a_lossy_row_without_loss_fails(demo, outcomes) -> None:
    lossy = next(place for place, outcome in enumerate(outcomes) if outcome.row.name == "udp 1 % loss")
    outcomes[lossy] = dataclasses.replace(
        outcomes[lossy], statistics=outcomes[lossy].statistics | {"packets_dropped": 0}
    )
    (problem,) = demo.problems(outcomes)
    assert problem.startswith("udp 1 % loss: no packet")


def test_a_run_over_its_time_is_ended(demo, tmp_path) -> None:
    with (tmp_path / "log").open("w") as output:
        assert demo.run_bounded([sys.executable, "-c", "import time; time.sleep(60)"], output, 0.5, {}) is None
        assert demo.run_bounded([sys.executable, "-c", "raise SystemExit(3)"], output, 60, {}) == 3
