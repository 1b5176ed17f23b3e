"""Times to a target over real links, beside the model: the arithmetic. The links are another test's matter."""

from __future__ import annotations

import pytest

pytest.importorskip("flax")
pytest.importorskip("optax")

from experiments import measured_time, racers, records
from experiments.measured_time import FAST, modelled, plot, points, seconds_to, table

RECORD = {"setting": {"workload": "clickthrough", "workers": 4, "seed": 0, "learning_rate_scale": 1.0}}
SCORES = [[10, 0.2], [20, 0.4], [30, 0.5], [40, 0.6]]


def recorded(scores=SCORES, megabits: float = 8.0) -> dict:
    sent = megabits / 8 * 1e6
    outcome = {"scores": scores, "sent": sent, "received": sent, "parameters": 250_000, "higher_is_better": True}
    return {**RECORD, "outcome": {**outcome, "diverged": False, "metric": "AUC"}}


def measured(step: float, scores=SCORES, first: float = 9.0) -> dict:
    """A run whose first step compiles."""
    return {"step_seconds": [first] + [step] * 39, "scores": scores}


def test_seconds_to_a_target_by_hand():
    assert seconds_to(0.4, True, measured(0.5)) == pytest.approx(10), "20 steps; compiling does not count"
    assert seconds_to(0.45, True, measured(0.5)) == pytest.approx(12.5), "half way between two scores"
    assert seconds_to(0.6, True, measured(0.5)) == pytest.approx(20), "the last step"
    assert seconds_to(0.7, True, measured(0.5)) is None
    assert seconds_to(0.4, True, measured(0.5, [[10, 0.2], [20, None]])) is None, "it diverged"
    slower = {"step_seconds": [9.0, *[0.5] * 20, *[1.0] * 19], "scores": SCORES}
    assert seconds_to(0.5, True, slower) == pytest.approx(19.5), "steps count as they were"


def test_the_model_adds_the_computation_and_the_network():
    runs = {"none": recorded(megabits=8.0), "int8": recorded(megabits=2.0)}
    fast = {"none": measured(0.02 + 12 / FAST), "int8": measured(0.03 + 2 / FAST)}
    found = modelled(runs, fast)
    assert found["none"].megabits == pytest.approx(12), "a ring of four sends one and a half times the gradient"
    assert found["none"].compute_s == pytest.approx(0.02) and found["int8"].compute_s == pytest.approx(0.03)
    assert found["none"].seconds(0.1) == pytest.approx(30 * (0.02 + 0.12)), "the target is the score after 30 steps"
    assert found["int8"].seconds(0.1) == pytest.approx(30 * (0.03 + 0.02))


def test_the_table_says_who_is_first_by_both(tmp_path):
    never = [[10, 0.1], [20, 0.2], [30, 0.3], [40, 0.4]]
    runs = {"none": recorded(), "int8": recorded(megabits=2.0), "topk": recorded(never, megabits=0.1)}
    fast = {"none": measured(0.0212), "int8": measured(0.0302), "topk": measured(0.02, never)}
    slow = {"none": measured(0.14), "int8": measured(0.2), "topk": measured(0.02, never)}
    document = {
        "rates": [100],
        "rounds": [{str(FAST): fast, "100": slow}],
        "stolen": [0.0],
    } | records.ended()
    ours = {point.spec: point for point in points(document, runs)}
    assert ours["none"].measured == pytest.approx(ours["none"].model) == pytest.approx(4.2)
    assert ours["int8"].measured == pytest.approx(6.0) and ours["int8"].model == pytest.approx(1.5)
    page = table(document, runs)
    assert "| 100 | `none` | 30 | 4.2 (4.2 - 4.2) | 4.2 | 1.00 |" in page
    assert "| 100 | `int8` | 30 | 6.0 (6.0 - 6.0) | 1.5 | 4.00 |" in page
    assert "| 100 | `topk` | never | - | - | - |" in page
    assert "* 100 Mbit/s: `none`, `int8`; by the model `int8`, `none`." in page
    quick = {"none": measured(0.16), "int8": measured(0.14), "topk": measured(0.02, never)}
    document["rounds"] += [{str(FAST): fast, "100": quick}]
    page = table(document, runs)
    assert "| 100 | `int8` | 30 | 5.1 (4.2 - 6.0) | 1.5 | 3.40 |" in page
    assert "* 100 Mbit/s: `none` ~ `int8`; by the model `int8`, `none`." in page
    plot(document, runs, tmp_path / "measured_time.png")
    assert (tmp_path / "measured_time.png").stat().st_size > 0


def test_runs_of_the_seed_are_taken_from_all_studies_that_race(monkeypatch):
    def run(spec, seed, workers=4):
        setting = {"workload": "ncf", "workers": workers, "seed": seed, "compressor": spec}
        return {"setting": setting}

    kept = [run("none", 0), run("dgc:momentum=0.0", 0), run("topk", 0)]
    others = [run("none", 1), run("none", 0, workers=16), run("thc", 0)]
    monkeypatch.setattr(racers, "records", lambda: [*others, *kept])
    assert measured_time.recorded_runs("ncf", seed=0) == {"none": kept[0], "topk": kept[2], "dgc:momentum=0.0": kept[1]}


def test_without_recorded_runs_it_says_what_to_run(monkeypatch):
    monkeypatch.setattr(racers, "records", list)
    with pytest.raises(
        SystemExit, match=r"no run of ncf with 4 workers is recorded: python -m experiments\.convergence"
    ):
        measured_time.recorded_runs("ncf", seed=0)


def test_nothing_races_twice():
    """A compressor that is in several studies of a workload would have two runs of a seed."""
    seen = [
        tuple(run["setting"][part] for part in ("workload", "workers", "compressor", "seed"))
        for run in racers.records()
    ]
    assert seen and len(seen) == len(set(seen))
