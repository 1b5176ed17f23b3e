"""What is read out of recorded runs: differences from the baseline, verdicts, tables and figures."""

from __future__ import annotations

import dataclasses
import types

import numpy as np
import pytest

pytest.importorskip("flax")
pytest.importorskip("optax")

from experiment_runs import MARGINS, SETTING, recorded_group, run_of, run_with

from experiments import grid, records
from experiments.rates import Search
from experiments.recorded import Case
from experiments.verdicts import beside_baseline


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
    assert records.made_with(found).startswith(f"Ended between {found[0]['finished']} and ")
    assert records.made_with(found[:1]).startswith(f"Ended at {found[0]['finished']}. Commit: ")


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


def test_largest_difference_of_losses():
    from experiments.recorded import largest_loss_difference

    other = run_with([])
    other["outcome"] = other["outcome"] | {"losses": [2.0, 1.1]}
    assert largest_loss_difference([other], [run_with([])]) == pytest.approx(0.1)
    assert largest_loss_difference([run_with([])], [run_with([])]) == 0


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
    noise = (0.0001, -0.0001, 0.0002, -0.0002, 0.0, 0.0, 0.0)
    runs = [run_of(seed, 0.5 + seed / 10, "none") for seed in range(5)]
    for compressor, shift, seeds in (("worse", -0.03, 5), ("same", 0.0001, 5), ("few", 0.0, 3), ("more", 0.0, 7)):
        runs += [run_of(seed, 0.5 + seed / 10 + shift + noise[seed], compressor) for seed in range(seeds)]
    runs += [run_of(seed, 0.5 if seed else None, "lost") for seed in range(5)]
    found = {spec: beside.verdict for spec, beside in beside_baseline(recorded_group(runs), 0.01).items()}
    assert found.pop("worse") == "different: worse"
    assert found == {"same": "equivalent", "more": "equivalent", "few": "too few seeds", "lost": "diverges"}
    without = recorded_group([run for run in runs if run["setting"]["compressor"] != "none"])
    assert beside_baseline(without, 0.01) == {}


@pytest.mark.parametrize("of", ["none", "other"])
def test_a_seed_with_two_rates_counts_as_none(of):
    """As long as a search is not over, the table has the runs of all rates."""
    runs = [run_of(seed, 0.5 + seed / 10, name) for seed in range(5) for name in ("none", "other")]
    assert beside_baseline(recorded_group(runs), 0.01)["other"].verdict == "equivalent"
    runs += [run_of(seed, 0.5 + seed / 10, of) for seed in range(5)]
    assert beside_baseline(recorded_group(runs), 0.01)["other"].verdict == "search not over"


def test_runs_on_different_bases_get_no_verdict():
    runs = [run_of(seed, 0.5 + seed / 10, name) for seed in range(5) for name in ("none", "other")]
    runs[-1]["outcome"]["base"] = "another"
    assert beside_baseline(recorded_group(runs), 0.01)["other"].verdict == "several bases"


def test_the_overview_is_in_margins_and_up_is_better(tmp_path):
    """An error that is lower by 0.02 is better by two margins. What the first study lacks comes from the second."""
    from experiments import overview

    noise = (0.0001, -0.0001, 0.0002, -0.0002, 0.0)

    def study(**shifts):
        runs = [
            run_of(seed, 0.5 + seed / 10 + shift + (noise[seed] if shift else 0.0), compressor)
            for compressor, shift in shifts.items()
            for seed in range(5)
        ]
        for run in runs:
            run["outcome"]["higher_is_better"] = False
        return types.SimpleNamespace(margins={"ncf": 0.01}, recorded=lambda: runs, lacking=lambda by_compressor: [])

    first = study(none=0.0, better=-0.02, same=0.0002, worse=0.2)
    found = overview.cells([first, study(none=0.0, better=0.5, more=0.12)])
    (by_spec,) = found.values()
    assert {spec: (str(cell), cell.kind) for spec, cell in by_spec.items()} == {
        "better": ("+2.0", overview.BETTER),
        "same": ("-0.02", overview.LITTLE_WORSE),
        "worse": ("-20", overview.WORSE),
        "more": ("-12", overview.WORSE),
    }
    assert "| `worse` | -20 worse |" in overview.document(found, "")
    overview.plot(found, tmp_path / "overview.png")
    assert (tmp_path / "overview.png").stat().st_size > 10_000


def test_of_a_study_that_still_runs_the_overview_shows_nothing_and_the_table_says_what_lacks(monkeypatch):
    """Holm's correction needs all compressors. Runs of others than the study's, and of more seeds, complete nothing."""
    from experiments import overview, summarize

    study = grid.Grid(("ncf",), ("none", "topk", "qsgd"), MARGINS, "s", seeds=5, rates=Search(scales=(1.0,)))
    runs = [run_of(seed, 0.5 + seed / 10, name) for seed in range(5) for name in ("none", "topk", "thc")]
    late = [run_of(seed, 0.5 + seed / 10, "qsgd") for seed in (0, 1, 2, 3, 7)]
    monkeypatch.setattr(grid.Grid, "recorded", lambda self: runs)
    for more, lacking in (
        ([], ["qsgd"]),
        (late, ["qsgd"]),
        ([run_of(4, 0.9, "qsgd")], []),
    ):
        runs += more
        assert study.lacking(recorded_group(runs)) == lacking
        assert bool(overview.cells([study])) == (not lacking)
        assert ("**Incomplete:** not all runs are made yet of `qsgd`." in summarize.table(runs, study, {})) == bool(
            lacking
        )
    kept = study.complete(recorded_group(runs))
    assert list(kept) == ["none", "qsgd", "thc", "topk"]
    assert {tuple(run["setting"]["seed"] for run in of) for of in kept.values()} == {(0, 1, 2, 3, 4)}
    runs.append(run_of(0, 0.7, "topk"))  # with another rate: its search is not over
    assert study.lacking(recorded_group(runs)) == ["topk"]


@pytest.mark.parametrize("config", sorted(file.stem for file in grid.CONFIGS.glob("*.toml")))
def test_the_pages_of_studies_that_are_over_are_current(config):
    from experiments import durations, rates, summarize

    study = grid.Grid.read(grid.CONFIGS / f"{config}.toml")
    if durations.left(study):
        pytest.skip("the study still runs")
    text = summarize.table(study.recorded(), study, records.by_id(rates.FILE))
    page = study.file.with_suffix(".md").read_text()
    assert page.endswith(f"\n\n{text}"), f"python -m experiments.summarize experiments/configs/{config}.toml"


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
