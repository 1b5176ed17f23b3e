"""Times to a target by counted bytes and measured costs, and the emulator of the paper's testbed."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("flax")
pytest.importorskip("optax")

from experiment_runs import run_with

from experiments import emulator, records
from experiments.paper import PROFILES, SPEEDUPS
from experiments.recorded import Case


def test_steps_to_a_target_by_hand():
    from experiments.ways import steps_to

    rising = [run_with([[10, 0.2], [20, 0.4], [30, 0.5]])]
    assert steps_to(0.3, True, rising) == pytest.approx(15)
    assert steps_to(0.1, True, rising) == 10
    assert steps_to(0.6, True, rising) is None
    assert steps_to(0.3, False, [run_with([[10, 0.5], [20, 0.1]])]) == pytest.approx(15)
    assert steps_to(0.3, True, [*rising, run_with([[10, 0.5]], diverged=True)]) is None


def test_time_to_accuracy_by_hand():
    from experiments import sensitivity
    from experiments.ways import ways

    times = {"ncf": 2.0, "none": 36.0, "topk": 20.0}
    times = {name: {"median": value, "repetitions": [value]} for name, value in times.items()}
    by_size = {name: {"250000": value} for name, value in times.items()}
    costs = {"gradient_ms": times, "compression_ns": by_size, "native_ns": {}}
    costs["traffic"] = {"none": {"sent": 4.0, "received": 4.0}, "topk": {"sent": 1.0, "received": 12.0}}
    runs = [run_with([[10, 0.2], [20, 0.4], [30, 0.5], [40, 0.6]])]
    groups = {"none": runs, "topk": runs}
    ring, topk = ways(groups, costs, at_papers_size=False)
    assert ring.steps == topk.steps == 30
    assert ring.seconds(1) == pytest.approx(30 * (2e-3 + 8 * 1.5 * 3e6 / 1e9))  # float32 costs no compression
    assert topk.seconds(10) == pytest.approx(30 * (7e-3 + 8 * 3e6 / 1e10))
    native = costs | {"native_ns": {"topk": {"250000": {"median": 4.0}}}}
    assert ways(groups, native, at_papers_size=False)[1].compression_s == pytest.approx(4e-9 * 250_000)
    free = ways(groups, costs, at_papers_size=True)[1].with_cost(0.0)
    assert free.compression_s == 0
    # NCF: 121 MB are 30.25 M elements, 12 bytes received for each.
    assert free.megabits == pytest.approx(8 * 12 * 30.25)
    # Table 1 at 10 Gbit/s: 149 ms, 107.28 of them communication, 4.29 hidden. Three times its bytes are received.
    assert free.seconds(10, "time") == pytest.approx(30 * (149 + 2 * 107.28) / 1e3, rel=1e-3)
    assert free.seconds(10, "share") == pytest.approx(30 * (46.01 + 3 * 0.96 * 107.28) / 1e3, rel=1e-3)
    # At 1 Gbit/s Top-k saves 12 ms a step and costs 5.
    wins = sensitivity.by_factor([ring, topk], 1)
    assert [factor for factor, spec in wins.items() if spec == "none"] == [4.0]


def test_costs_between_sizes_and_bytes_of_a_large_array():
    from experiments.ways import cost_at, ways

    measured = {"100": {"median": 2.0}, "10000": {"median": 6.0}}
    assert [cost_at(measured, n) for n in (10, 100, 1000, 10_000, 10**8)] == pytest.approx([2, 2, 4, 6, 6])
    nothing = {"median": 0.0}
    costs = {"gradient_ms": {"ncf": nothing}, "compression_ns": {}, "native_ns": {}, "traffic": {}}
    for spec, an_element in (("none", 4.0), ("topk", 0.25), ("powersgd", 0.01)):
        costs["compression_ns"][spec] = {"100": nothing}
        costs["traffic"][spec] = {"sent": an_element, "received": an_element}
    runs = [run_with([[10, 0.2], [20, 0.4], [30, 0.5], [40, 0.6]])]
    all_runs = dict.fromkeys(("none", "topk", "powersgd"), runs)
    _, topk = ways(all_runs, costs, at_papers_size=True)  # PowerSGD's bytes depend on shapes that nobody knows
    assert topk.megabits == pytest.approx(8 * 0.25 * 30.25), "not what our small arrays send for an element"
    assert [way.spec for way in ways(all_runs, costs, at_papers_size=False)] == ["none", "topk", "powersgd"]


def test_how_wrong_one_cost_may_be_by_hand():
    """20 steps each. At 1 Gbit/s a step takes 10 ms, 4 + 2 ms, 5 + 3 ms; 2, 3 ms are compression."""
    from experiments.sensitivity import Lead, lead
    from experiments.ways import Way

    ring = Way("none", 20, 0.0, 0.0, 10.0, None, 1.5)
    first, second = Way("int8", 20, 0.0, 0.002, 4.0, None, 1.0), Way("topk", 20, 0.0, 0.003, 5.0, None, 1.0)
    never = Way("terngrad", None, 0.0, 0.001, 1.0, None, 1.0)
    found = lead([ring, first, second, never], 1)
    assert (found.spec, found.then, found.rival) == ("int8", "topk", "topk")
    assert found.above == pytest.approx(2) and found.below == pytest.approx(1 / 3)
    assert lead([ring, never], 1) == Lead("none", float("inf"), None, 0.0, None)


def test_what_the_rings_own_work_may_cost_by_hand():
    """NCF has 30.25 million elements. At 1 Gbit/s a step takes 10 ms and 4 + 9 ms, at 0.1 100 and 49."""
    from experiments.sensitivity import Allowance, rings_allowance
    from experiments.ways import Way

    ring = Way("none", 20, 0.0, 0.0, 10.0, PROFILES["NCF"], 1.5)
    other = Way("int8", 20, 0.0, 0.009, 4.0, ring.profile, 1.0)
    never = Way("thc", None, 0.0, 0.009, 4.0, ring.profile, 1.0)
    allowed = rings_allowance([ring, other, never], 1)
    assert allowed is not None and allowed.spec == "int8"
    assert allowed.ns == pytest.approx(3e-3 / 30.25e6 * 1e9)
    assert rings_allowance([ring, other, never], 0.1) == Allowance(0.0, "int8")
    assert rings_allowance([ring, never], 1) is None


def test_who_is_fastest_if_the_measurements_are_drawn_again():
    """One of two repetitions is so dear that the ring wins."""
    from experiments import sensitivity

    repetitions = {"ncf": [2.0], "none": [36.0], "topk": [20.0, 200.0]}
    times = {name: {"median": values[0], "repetitions": values} for name, values in repetitions.items()}
    by_size = {name: {"250000": value} for name, value in times.items()}
    runs = [run_with([[10, 0.2], [20, 0.4], [30, 0.5], [40, 0.6]])]
    groups = {"none": runs, "topk": runs}
    costs = {"gradient_ms": times, "compression_ns": by_size, "native_ns": {}, "workers": 4}
    chances = sensitivity.by_chance(groups, costs, False, (1,), np.random.default_rng(0))
    assert set(chances[1]) == {"none", "topk"} and sum(chances[1].values()) == 1
    assert 0.35 < chances[1]["topk"] < 0.65
    free = sensitivity.by_chance(groups, costs, False, (1,), np.random.default_rng(0), 0.0)
    assert free[1] == {"topk": 1.0}


def test_emulated_ring_by_hand():
    """DeepLight at 10 Gbit/s: 2037.97 ms of communication, 40.76 of them hidden, 103.79 fixed. A ring takes 1.75 times
    the communication."""
    ring = emulator.batch_ms(PROFILES["DeepLight"], 10, 1.75)
    assert ring == pytest.approx(103.79 + 1.75 * 2037.97 - 40.76, abs=0.02)
    assert emulator.batch_ms(PROFILES["DeepLight"], 10, 1.0) == pytest.approx(2101)

    # With the same share hidden, 2 % of a ring's communication is, too.
    share = emulator.batch_ms(PROFILES["DeepLight"], 10, 1.75, overlap=emulator.SHARE)
    assert share == pytest.approx(103.79 + 1.75 * 2037.97 * 0.98, abs=0.02)


def test_emulated_speedups_of_aggregation_are_near_the_papers():
    """By either model most rows agree within 5 %, and the two that do not by one of them lie between the models."""
    rows = [row for row in emulator.rows() if row.method == "INA"]
    assert len(rows) == sum(map(len, SPEEDUPS.values())) == 12
    far = [row for row in rows if abs(row.difference(emulator.TIME)) > 0.05]
    assert {(row.model, row.gbps) for row in far} == {("ResNet-50", 10), ("LSTM", 100)}
    for row in far:
        assert min(row.ours.values()) - 0.03 < row.paper < max(row.ours.values())


def test_emulator_page_is_current():
    assert (records.RESULTS / "table2.md").read_text() == emulator.document()


def test_tables_of_times_by_hand():
    """A step is 2 Mbit, or 1 ms of compression. Top-k needs half as many steps more."""
    from experiments import time_tables
    from experiments.ways import Way

    found = [
        Way("none", 20, 0.0, 0.0, 2.0, None, 1.5),
        Way("topk", 30, 0.0, 0.001, 0.0, None, 0.0),
        Way("terngrad", None, 0.0, 0.0, 1.0, None, 1.0),
    ]
    by_case = {Case("ncf", 4): found, Case("gan", 4): found[:1]}
    scales = dict.fromkeys(time_tables.SCALES, by_case)
    chances = {1: {"topk": 0.9, "none": 0.1}, 10: {"none": 0.91, "topk": 0.09}, 100: {"none": 1.0}}
    lines = time_tables.table(scales, {scale: {Case("ncf", 4): chances} for scale in time_tables.SCALES}).splitlines()
    assert "Nowhere reached by `terngrad`." in lines[2]
    assert [line for line in lines if line.startswith("| `topk`")] == [
        "| `topk` | 1.50 | - |",
        *["| `topk` | 1.33 / 0.13 / 0.01 | - |"] * 3,
    ]
    assert [line for line in lines if line.startswith("| ncf")] == [
        "| ncf | `topk` 90%, `none` 10% | `none` 91% | `none` 100% |"
    ] * 3
    assert not any("terngrad` |" in line for line in lines)
