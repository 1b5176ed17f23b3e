"""The code of the studies: records, grids, scores, the emulator and the effect of f. No test needs the data sets."""

from __future__ import annotations

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("flax")
pytest.importorskip("optax")

from compressor_cases import get, initial, normal, steps

from experiments import effect_of_f, emulator, grid, records
from experiments.paper import PROFILES, SPEEDUPS
from experiments.records import Setting

SETTING = Setting("ncf", "small", "topk", 8, 0, 100, 1.0, "xla")


def test_results_are_resumable_after_a_torn_line(tmp_path):
    file = tmp_path / "results.jsonl"
    records.append(file, SETTING, {"losses": [1.0]})
    with file.open("a") as lines:
        lines.write('{"id": "torn')
    other = dataclasses.replace(SETTING, seed=1)
    assert records.finished(file) == {SETTING.id}
    records.append(file, other, {"losses": [2.0]})
    assert records.finished(file) == {SETTING.id, other.id}
    record = records.read(file)[1]
    assert record["setting"]["seed"] == 1
    assert record["provenance"]["versions"]["jax"] == jax.__version__
    assert len(record["provenance"]["commit"] or "-" * 40) == 40


@pytest.mark.parametrize("field", [f.name for f in dataclasses.fields(Setting)])
def test_every_part_of_a_setting_counts(field):
    value = getattr(SETTING, field)
    changed = dataclasses.replace(SETTING, **{field: value + 1 if not isinstance(value, str) else value + "x"})
    assert changed.id != SETTING.id


def test_not_a_number_is_no_result(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        records.append(tmp_path / "results.jsonl", SETTING, {"losses": [float("nan")]})


@pytest.mark.parametrize("file", sorted(grid.CONFIGS.glob("*.toml")), ids=lambda file: file.stem)
def test_configs_can_be_read(file, monkeypatch):
    study = dataclasses.replace(grid.Grid.read(file), steps=10)
    settings = study.settings()
    assert (
        len({setting.id for setting in settings})
        == len(settings)
        == (len(study.workloads) * len(study.compressors) * study.seeds)
    )
    for setting in settings:
        limit = getattr(get(setting.compressor), "limit", lambda workers: 1)
        assert limit(setting.workers) >= 1


def test_unknown_entries_are_refused(tmp_path):
    (tmp_path / "study.toml").write_text("seed = 3\n")
    with pytest.raises(ValueError, match="unknown entries seed"):
        grid.Grid.read(tmp_path / "study.toml")


def test_learning_rate_scale_by_name_and_by_workload():
    study = grid.Grid(
        ("ncf", "vgg"), ("signsgd",), seeds=1, steps=1, learning_rate_scale={"signsgd": 0.5, "vgg/signsgd": 0.25}
    )
    assert [setting.learning_rate_scale for setting in study.settings()] == [0.5, 0.25]


def test_only_what_an_aggregator_sums_is_carried_by_jaxina():
    study = grid.Grid(("ncf",), ("none", "int32", "powersgd:2", "topk:0.1"), seeds=1, steps=1)
    assert [setting.collective for setting in study.settings()] == ["xla", "jaxina", "jaxina", "xla"]
    native = dataclasses.replace(study, collective="xla")
    assert {setting.collective for setting in native.settings()} == {"xla"}


def test_a_part_of_a_study_is_the_same_runs():
    study = grid.Grid(("ncf", "vgg"), ("none", "topk:0.01"), seeds=2, steps=1)
    part = study.selected(["vgg"], ["topk"])
    assert part.compressors == ("topk:0.01",)
    assert set(part.settings()) == {s for s in study.settings() if (s.workload, s.compressor) == ("vgg", "topk")}
    assert study.selected([], []) == study


def test_summary_table_of_two_seeds_one_of_which_diverged(tmp_path):
    from experiments import summarize

    outcome = {
        "losses": [1.0],
        "metric": "hit rate",
        "higher_is_better": True,
        "parameters": 10,
        "sent": 40.0,
        "received": 40.0,
        "diverged": False,
        "scores": [[1, 0.25], [2, 0.5]],
    }
    for seed, lost in ((0, False), (1, True)):
        scores = [[1, None]] if lost else outcome["scores"]
        records.append(
            tmp_path / "s.jsonl",
            dataclasses.replace(SETTING, seed=seed),
            outcome | {"diverged": lost, "scores": scores},
        )
    text = summarize.table(records.read(tmp_path / "s.jsonl"))
    assert "| `topk` | 2 | 0.5, 1 of 2 diverge |" in text


def test_confidence_band_by_hand():
    from experiments.summarize import curve

    runs = [{"outcome": {"scores": [[5, score]]}} for score in (1.0, 3.0)]
    at, mean, half = curve(runs)
    assert (at.tolist(), mean.tolist()) == ([5], [2.0])
    assert half[0] == pytest.approx(12.706 * 1.0)  # Student's t times the standard error of (1, 3), which is 1


def run_with(scores, diverged=False):
    return {
        "outcome": {
            "scores": scores,
            "diverged": diverged,
            "losses": [2.0, 1.0],
            "higher_is_better": True,
            "sent": 1e6,
            "received": 3e6,
            "parameters": 250_000,
        },
        "setting": {"seed": 0, "workers": 4, "workload": "ncf"},
    }


def test_steps_to_a_target_by_hand():
    from experiments.time_to_accuracy import steps_to

    rising = [run_with([[10, 0.2], [20, 0.4], [30, 0.5]])]
    assert steps_to(0.3, True, rising) == pytest.approx(15)
    assert steps_to(0.1, True, rising) == 10
    assert steps_to(0.6, True, rising) is None
    assert steps_to(0.3, False, [run_with([[10, 0.5], [20, 0.1]])]) == pytest.approx(15)
    assert steps_to(0.3, True, [*rising, run_with([[10, 0.5]], diverged=True)]) is None


def test_time_to_accuracy_by_hand():
    from experiments.time_to_accuracy import ways

    costs = {"gradient_ms": {"ncf": 2.0}, "compression_ns": {"none": 36.0, "topk": 20.0}}
    runs = [run_with([[10, 0.2], [20, 0.4], [30, 0.5], [40, 0.6]])]
    ring, topk = ways({"none": runs, "topk": runs}, costs, "small")
    assert ring.steps == topk.steps == 30
    assert ring.seconds(1) == pytest.approx(30 * (2e-3 + 8 * 1.5 * 3e6 / 1e9))  # float32 costs no compression
    assert topk.seconds(10) == pytest.approx(30 * (7e-3 + 8 * 3e6 / 1e10))
    free = ways({"none": runs, "topk": runs}, costs, "paper, free")[1]
    assert free.compression_s == 0
    assert free.megabits == pytest.approx(
        8 * 3 * 121 / 4 / 0.25
    )  # NCF: 121 MB are 30.25 M elements, 12 bytes received for each


def test_largest_difference_of_losses():
    from experiments.summarize import largest_loss_difference

    other = run_with([])
    other["outcome"] = other["outcome"] | {"losses": [2.0, 1.1]}
    assert largest_loss_difference([other], [run_with([])]) == pytest.approx(0.1)
    assert largest_loss_difference([run_with([])], [run_with([])]) == 0


def test_differences_are_taken_seed_by_seed():
    """Seeds vary by 1, and each run is off its seed's baseline by 0.1 and 0.3."""
    from experiments.summarize import difference

    def run(seed: int, score: float):
        return {"setting": {"seed": seed}, "outcome": {"diverged": False, "scores": [[1, score]]}}

    baseline = [run(0, 1.0), run(1, 2.0), run(2, 5.0)]
    mean, error = difference([run(1, 2.3), run(0, 1.1)], baseline)
    assert mean == pytest.approx(0.2)
    assert error == pytest.approx(0.1)  # of two differences: half their distance
    assert difference([run(0, 1.1)], baseline) is None
    lost = {"setting": {"seed": 1}, "outcome": {"diverged": True, "scores": [[1, None]]}}
    assert difference([run(0, 1.1), lost], baseline) is None


def test_emulated_ring_by_hand():
    """DeepLight at 10 Gbit/s: 2037.97 ms of communication, 40.76 of them hidden, 103.79 fixed. A ring takes 1.75 times
    the communication."""
    ring = emulator.batch_ms(PROFILES["DeepLight"], 10, 1.75)
    assert ring == pytest.approx(103.79 + 1.75 * 2037.97 - 40.76, abs=0.02)
    assert emulator.batch_ms(PROFILES["DeepLight"], 10, 1.0) == pytest.approx(2101)


def test_emulator_agrees_with_the_paper_within_five_percent_but_for_what_it_explains():
    rows = [row for row in emulator.rows() if row.method == "INA"]
    assert len(rows) == sum(map(len, SPEEDUPS.values())) == 12
    assert {(r.model, r.gbps) for r in rows if abs(r.difference) > 0.05} == set(emulator.EXPLANATIONS)


def test_emulator_page_is_current():
    assert (records.RESULTS / "table2.md").read_text() == emulator.document()


@pytest.mark.parametrize("bits, block, workers", [(8, 7, 3), (8, 7, 4), (16, 32, 3)])
def test_effect_of_f_sums_as_the_compressor_does(bits, block, workers):
    x = np.stack([normal(seed).reshape(-1) for seed in range(60, 60 + workers)])
    compressor = get(f"blockfp:{bits}:{block}")
    mean, _ = steps(compressor, jnp.asarray(x), initial(compressor, jnp.asarray(x)))
    ours, _ = effect_of_f.summed(x, bits, block)
    np.testing.assert_allclose(mean[0], ours / workers, rtol=1e-6)


def test_recorded_errors_are_within_theorem_1():
    document = json.loads((records.RESULTS / "effect_of_f.json").read_text())
    shares = [point["of_bound"] for point in document["points"]]
    assert len(shares) == len(effect_of_f.WORKLOADS) * len(effect_of_f.BITS) * len(effect_of_f.BLOCKS)
    assert 0.3 < max(shares) <= 1.0
