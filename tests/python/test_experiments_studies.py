"""The code of the studies: records, grids, scores, the emulator and the effect of f. No test needs the data sets."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("flax")
pytest.importorskip("optax")

from compressor_cases import get, initial, normal, steps

from experiments import convergence, effect_of_f, emulator, grid, records, statistics
from experiments.paper import PROFILES, SPEEDUPS
from experiments.rates import Search
from experiments.recorded import Case
from experiments.records import Setting
from jaxina.errors import InvalidArgumentError

SETTING = Setting("ncf", "small", "topk", 8, 0, 100, 1.0, "xla", "test")
MARGINS = {"ncf": 0.01, "vgg": 1.0, "lstm": 0.3}


def test_results_are_resumable_after_a_torn_line(tmp_path):
    file = tmp_path / "results.jsonl"
    records.append(file, SETTING, {"losses": [1.0]})
    with file.open("a") as lines:
        lines.write('{"id": "torn')
    other = dataclasses.replace(SETTING, seed=1)
    assert records.by_id(file).keys() == {SETTING.id}
    records.append(file, other, {"losses": [2.0]})
    assert records.by_id(file).keys() == {SETTING.id, other.id}
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
    study = grid.Grid.read(file)
    runs = [run for entry in study.entries() for run in study.runs(entry, 1.0)]
    count = len(study.workers) * len(study.workloads) * len(study.compressors) * study.seeds
    assert len({run.id for run in runs}) == len(runs) == count
    assert study.seeds >= statistics.FEWEST_SEEDS
    for run in runs:
        limit = getattr(get(run.compressor), "limit", lambda workers: 1)
        assert limit(run.workers) >= 1


STUDY = {
    "results": '"x"',
    "workloads": '["ncf"]',
    "compressors": '["none", "topk"]',
    "margins": "{ncf = 0.01}",
}


def study_in(folder, **changes: str | None):
    """Writes a study's file with these entries changed, added or, with None, left out."""
    entries = STUDY | changes
    file = folder / "study.toml"
    file.write_text("".join(f"{name} = {value}\n" for name, value in entries.items() if value is not None))
    return file


@pytest.mark.parametrize(
    "changes, why",
    [
        ({"workload": '["ncf"]'}, "unknown entry workload, did you mean workloads?.* allowed are results, workloads, "),
        ({"compressors": None, "margins": None}, "there is no compressors, margins"),
        ({"margins": "{}"}, r"margin .*\['ncf'\]"),
        ({"margins": "{ncf = 0}"}, r"margin .*\['ncf'\]"),
        ({"margins": '{ncf = "small"}'}, "margins = .* is not a table with a number for each workload"),
        ({"rates": "{scales = [2, 1]}"}, "rise"),
        ({"rates": "{scales = [1, 2, 3]}"}, "rise"),
        ({"rates": '{scales = ["fast"]}'}, r"rates.scales = \['fast'\] is not a list of numbers"),
        ({"rates": "{scale = [1]}"}, "unknown entry rates.scale, did you mean rates.scales?"),
        ({"workers": "4"}, r"workers = 4 is not a list of numbers of at least 1, such as \[4, 16\]"),
        ({"workers": "[true]"}, "workers"),
        ({"seeds": '"five"'}, "seeds = 'five' is not a number of at least 1"),
        ({"collective": '"mpi"'}, "collective = 'mpi' is not one of xla, jaxina, deployed"),
        ({"size": '"huge"'}, "size = 'huge' is not one of small, large"),
        ({"workloads": '["resnett"]'}, "no workload 'resnett'; there are clickthrough, "),
        ({"compressors": '["none", "topj"]'}, "no compressor 'topj'"),
        ({"compressors": '["topk", "int8"]'}, "compressors lack none"),
        ({"results": "["}, "not TOML: .*line"),
    ],
)
def test_a_study_that_makes_no_sense_is_refused(tmp_path, changes, why):
    file = study_in(tmp_path, **changes)
    with pytest.raises(InvalidArgumentError, match=f"{file}: .*{why}"):
        grid.Grid.read(file)


def test_a_wrong_study_is_one_line_and_the_status_2(tmp_path, capsys):
    study = str(study_in(tmp_path))
    for options, why in (
        (["--config", study, "--compressor", "topj"], "no compressor 'topj'"),
        (["--config", study, "--workload", "vgg"], "no runs of vgg"),
        (["--config", str(tmp_path / "none.toml")], "none.toml: cannot be read: No such file"),
    ):
        with pytest.raises(SystemExit) as ended:
            convergence.main(options)
        (line,) = capsys.readouterr().err.splitlines()
        assert ended.value.code == 2 and line.startswith("error: ") and why in line, options


def test_only_what_an_aggregator_sums_is_carried_by_jaxina():
    study = grid.Grid(("ncf",), ("none", "int32", "powersgd:2", "topk:0.1", "adaptive8"), MARGINS, "x")
    assert [entry.collective for entry in study.entries()] == ["xla", "jaxina", "jaxina", "xla", "xla"]
    native = dataclasses.replace(study, collective="xla")
    assert {entry.collective for entry in native.entries()} == {"xla"}


def test_a_part_of_a_study_is_the_same_runs():
    study = grid.Grid(("ncf", "vgg"), ("none", "topk:0.01"), MARGINS, "x", workers=(4, 16))
    part = study.selected(["vgg"], ["topk"], [16])
    assert part.compressors == ("topk:0.01",)
    assert part.entries() == [
        e for e in study.entries() if (e.workload, e.compressor, e.workers) == ("vgg", "topk", 16)
    ]
    assert study.selected() == study
    with pytest.raises(InvalidArgumentError, match="no runs"):
        study.selected(["lstm"])


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
    study = grid.Grid(("ncf",), ("topk",), MARGINS, "s", rates=Search(scales=(1.0,)))
    for seed, lost in ((0, False), (1, True)):
        scores = [[1, None]] if lost else outcome["scores"]
        records.append(
            tmp_path / "s.jsonl",
            dataclasses.replace(SETTING, seed=seed),
            outcome | {"diverged": lost, "scores": scores},
        )
    found = records.read(tmp_path / "s.jsonl")
    text = summarize.table(found, study, {})
    assert "| `topk` | x 1 | 2 | 0.5, 1 of 2 diverge |" in text
    assert "No learning rate was searched." in text
    assert f"2 runs, which ended between {found[0]['finished']}" in summarize.made_with(found)


def test_a_study_with_float32_alone_has_a_table_and_no_figures(tmp_path, monkeypatch, capsys):
    from experiments import summarize

    monkeypatch.setattr(grid, "RESULTS", tmp_path)
    study = grid.Grid(("ncf",), ("none", "topk"), MARGINS, "s", steps=SETTING.steps, rates=Search(scales=(1.0,)))
    outcome = run_with([[1, 0.25], [2, 0.5]])["outcome"] | {"metric": "hit rate"}
    for _ in range(2):  # two processes have made it: it counts once
        records.append(study.file, dataclasses.replace(SETTING, compressor="none"), outcome)
    summarize.summarize(study)
    assert "no figures" in capsys.readouterr().out
    assert "| `none` | x 1 | 1 | 0.5 |" in study.file.with_suffix(".md").read_text()
    assert not list(tmp_path.glob("*.png"))


def test_mean_and_range_by_hand():
    from experiments.recorded import curve

    runs = [{"outcome": {"scores": [[5, score], [6, None]]}} for score in (1.0, 3.0)]
    assert [values.tolist() for values in curve(runs)] == [[5], [2.0], [1.0], [3.0]]


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
    costs = {"gradient_ms": times, "compression_ns": times, "native_ns": {}}
    runs = [run_with([[10, 0.2], [20, 0.4], [30, 0.5], [40, 0.6]])]
    groups = {"none": runs, "topk": runs}
    ring, topk = ways(groups, costs, at_papers_size=False)
    assert ring.steps == topk.steps == 30
    assert ring.seconds(1) == pytest.approx(30 * (2e-3 + 8 * 1.5 * 3e6 / 1e9))  # float32 costs no compression
    assert topk.seconds(10) == pytest.approx(30 * (7e-3 + 8 * 3e6 / 1e10))
    native = costs | {"native_ns": {"topk": {"median": 4.0}}}
    assert ways(groups, native, at_papers_size=False)[1].compression_s == pytest.approx(4e-9 * 250_000)
    free = ways(groups, costs, at_papers_size=True)[1].with_cost(0.0)
    assert free.compression_s == 0
    assert free.megabits == pytest.approx(
        8 * 3 * 121 / 4 / 0.25
    )  # NCF: 121 MB are 30.25 M elements, 12 bytes received for each
    # Table 1 at 10 Gbit/s: 149 ms, 107.28 of them communication, 4.29 hidden. Three times its bytes are received.
    assert free.seconds(10, "time") == pytest.approx(30 * (149 + 2 * 107.28) / 1e3, rel=1e-3)
    assert free.seconds(10, "share") == pytest.approx(30 * (46.01 + 3 * 0.96 * 107.28) / 1e3, rel=1e-3)
    # At 1 Gbit/s Top-k saves 12 ms a step and costs 5.
    wins = sensitivity.by_factor([ring, topk], 1)
    assert [factor for factor, spec in wins.items() if spec == "none"] == [4.0]


def test_who_is_fastest_if_the_measurements_are_drawn_again():
    """One of two repetitions is so dear that the ring wins."""
    from experiments import sensitivity

    repetitions = {"ncf": [2.0], "none": [36.0], "topk": [20.0, 200.0]}
    times = {name: {"median": values[0], "repetitions": values} for name, values in repetitions.items()}
    runs = [run_with([[10, 0.2], [20, 0.4], [30, 0.5], [40, 0.6]])]
    chances = sensitivity.by_chance(
        {"none": runs, "topk": runs},
        {"gradient_ms": times, "compression_ns": times, "native_ns": {}, "workers": 4},
        False,
        (1,),
        np.random.default_rng(0),
    )
    assert set(chances[1]) == {"none", "topk"} and sum(chances[1].values()) == 1
    assert 0.35 < chances[1]["topk"] < 0.65


def test_largest_difference_of_losses():
    from experiments.recorded import largest_loss_difference

    other = run_with([])
    other["outcome"] = other["outcome"] | {"losses": [2.0, 1.1]}
    assert largest_loss_difference([other], [run_with([])]) == pytest.approx(0.1)
    assert largest_loss_difference([run_with([])], [run_with([])]) == 0


def run_of(seed: int, score: float | None, compressor: str = "topk", losses: Sequence[float] = (4.0, 2.0)):
    return {
        "setting": dataclasses.asdict(
            dataclasses.replace(SETTING, seed=seed, workers=4, steps=2, compressor=compressor)
        ),
        "outcome": {
            "diverged": score is None,
            "scores": [[1, 0.5], [2, score]],
            "losses": list(losses),
            "window": 1,
            "metric": "hit rate",
            "higher_is_better": True,
            "sent": 1.0,
            "received": 1.0,
            "parameters": 1,
        },
    }


def test_differences_are_taken_seed_by_seed():
    """Seeds vary by 1, and each run is off its seed's baseline by 0.1 and 0.3."""
    from experiments import recorded

    baseline = [run_of(0, 1.0), run_of(1, 2.0), run_of(2, 5.0)]
    assert recorded.differences([run_of(1, 2.3), run_of(0, 1.1)], baseline) == pytest.approx([0.3, 0.1])
    assert recorded.differences([run_of(0, 1.1), run_of(1, None)], baseline) == pytest.approx([0.1])
    steps, samples = recorded.differences_over_steps([run_of(1, 2.3), run_of(0, 1.1)], baseline)
    assert (steps, samples) == ([1, 2], [[0.0, 0.0], pytest.approx([0.3, 0.1])])
    slower = [run_of(0, 1.0, losses=(4.4, 2.2)), run_of(1, None)]
    assert recorded.loss_differences(slower, [run_of(0, 1.0), run_of(1, 1.0)], 2) == pytest.approx(
        np.array([[0.1, 0.1]])
    )


def test_the_table_gives_verdicts_and_says_where_it_cannot():
    """Differences of about 0.03 are worse; 0.0001 is within 0.01; three seeds and a diverged run have no verdict.

    Seeds that the baseline lacks have no difference. They do not take the verdict of the others away.
    """
    from experiments import summarize

    noise = (0.0001, -0.0001, 0.0002, -0.0002, 0.0, 0.0, 0.0)
    runs = [run_of(seed, 0.5 + seed / 10, "none") for seed in range(5)]
    for compressor, shift, seeds in (("worse", -0.03, 5), ("same", 0.0001, 5), ("few", 0.0, 3), ("more", 0.0, 7)):
        runs += [run_of(seed, 0.5 + seed / 10 + shift + noise[seed], compressor) for seed in range(seeds)]
    runs += [run_of(seed, 0.5 if seed else None, "lost") for seed in range(5)]
    found = {spec: verdict for spec, (_, verdict) in summarize.beside_baseline(recorded_group(runs), 0.01).items()}
    assert found.pop("worse") == "different: worse"
    assert found == {"same": "equivalent", "more": "equivalent", "few": "too few seeds", "lost": "diverges"}
    without = recorded_group([run for run in runs if run["setting"]["compressor"] != "none"])
    assert summarize.beside_baseline(without, 0.01) == {}


@pytest.mark.parametrize("of", ["none", "other"])
def test_a_seed_with_two_rates_counts_as_none(of):
    """As long as a search is not over, the table has the runs of all rates."""
    from experiments import summarize

    runs = [run_of(seed, 0.5 + seed / 10, name) for seed in range(5) for name in ("none", "other")]
    assert summarize.beside_baseline(recorded_group(runs), 0.01)["other"][1] == "equivalent"
    runs += [run_of(seed, 0.5 + seed / 10, of) for seed in range(5)]
    assert summarize.beside_baseline(recorded_group(runs), 0.01)["other"][1] == "search not over"


def test_runs_on_different_bases_get_no_verdict():
    from experiments import summarize

    runs = [run_of(seed, 0.5 + seed / 10, name) for seed in range(5) for name in ("none", "other")]
    runs[-1]["outcome"]["base"] = "another"
    assert summarize.beside_baseline(recorded_group(runs), 0.01)["other"][1] == "several bases"


def recorded_group(runs):
    from experiments import recorded

    return recorded.grouped(runs)[recorded.Case("ncf", 4)]


def test_figures_order_bits_by_their_size_and_give_each_curve_of_a_panel_its_own_colour():
    from experiments import figures
    from experiments.style import line

    assert figures.ordered(["z:12", "z:4", "int8", "none", "z:10"]) == ["none", "int8", "z:4", "z:10", "z:12"]
    bits = [f"blockfp:bits={bits}" for bits in (4, 5, 7, 8, 10, 12)]
    assert figures.ordered(reversed(bits)) == bits
    eight = ["int8", "adaptive8", "adaptive8:stochastic", "blockfp:bits=8", "blockfp:bits=8:stochastic"]
    assert figures.ordered(reversed(eight)) == eight
    for specs in figures.PANELS.values():
        assert len({line(1 + number)["color"] for number in range(len(specs))} - {line(0)["color"]}) == len(specs)
        assert len({figures.name(spec) for spec in specs}) == len(specs)
    assert len({(line(number)["color"], line(number)["marker"]) for number in range(72)}) == 72


def test_no_text_of_a_figure_is_cut_off_or_covers_a_panel():
    """Titles, labels and legends are inside the figure, and no legend overlaps the data of any panel."""
    import matplotlib.pyplot as plt

    from experiments import figures

    specs = ["none", "int32", "int8", "blockfp:bits=4", "blockfp:bits=6:block=4096", "topk:ratio=0.1-ef"]
    runs = [
        run_of(seed, 0.5 + seed / 10 - number / 20, spec, losses=[3.0 - number / 9] * 20)
        for number, spec in enumerate(specs)
        for seed in range(3)
    ]
    group = recorded_group(runs)
    drawn = [
        figures.finals({Case("ncf", 4): group}, MARGINS),
        figures.metric_over_steps(Case("ncf", 4), group, 0.01),
        figures.block_fixed_point({Case("ncf", 4): group, Case("lstm", 16): group}),
        figures.block_fixed_point({Case("ncf", 4): group}),
    ]
    for figure in drawn:
        figure.canvas.draw()
        whole = figure.bbox
        legends = [*figure.legends, *(axes.get_legend() for axes in figure.axes if axes.get_legend())]
        texts = [figure._suptitle, *(text for axes in figure.axes for text in (axes.title, axes.xaxis.label))]
        texts += [axes.yaxis.label for axes in figure.axes]
        boxes = [artist.get_window_extent() for artist in (*legends, *(text for text in texts if text.get_text()))]
        for box in boxes:
            assert box.x0 >= whole.x0 and box.x1 <= whole.x1 and box.y0 >= whole.y0 and box.y1 <= whole.y1
        for legend in legends:
            assert not any(legend.get_window_extent().overlaps(axes.get_window_extent()) for axes in figure.axes)
        plt.close(figure)


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


@pytest.mark.parametrize("bits, block, workers", [(8, 7, 3), (8, 7, 4), (16, 32, 3)])
def test_effect_of_f_sums_as_the_compressor_does(bits, block, workers):
    x = np.stack([normal(seed).reshape(-1) for seed in range(60, 60 + workers)])
    compressor = get(f"blockfp:{bits}:{block}")
    mean, _ = steps(compressor, jnp.asarray(x), initial(compressor, jnp.asarray(x)))
    ours, _ = effect_of_f.summed(x, bits, block)
    np.testing.assert_allclose(mean[0], ours / workers, rtol=1e-6)


def test_effect_of_f_has_no_words_of_which_the_sum_takes_all_bits():
    assert np.isfinite(
        effect_of_f.summed(np.ones((effect_of_f.WORKERS, 3), np.float32), min(effect_of_f.BITS), 2)
    ).all()
    with pytest.raises(ValueError, match="4 bits leave nothing for a word of each of 8 workers"):
        effect_of_f.summed(np.ones((8, 3), np.float32), 4, 2)


def test_recorded_errors_are_within_theorem_1():
    document = json.loads((records.RESULTS / "effect_of_f.json").read_text())
    shares = [point["of_bound"] for point in document["points"]]
    assert len(shares) == len(effect_of_f.WORKLOADS) * len(effect_of_f.BITS) * len(effect_of_f.BLOCKS)
    assert 0.3 < max(shares) <= 1.0
