"""What pages and figures say besides the tables of a study: ticks, pairs of compressors, kinds of verdicts, power."""

from __future__ import annotations

import dataclasses
import itertools
import types

import pytest

pytest.importorskip("flax")
pytest.importorskip("optax")

from experiment_runs import MARGINS, recorded_group, run_of

from experiments import grid
from experiments.rates import Search
from experiments.recorded import Case
from experiments.verdicts import contrasts

NOISE = (0.0001, -0.0001, 0.0002, -0.0002, 0.0)


def runs_with(**shifts: float) -> list[dict]:
    """Returns five runs of each compressor, so far from what the seed's data give."""
    return [
        run_of(seed, 0.5 + seed / 10 + shift + (NOISE[seed] if shift else 0.0), compressor)
        for compressor, shift in shifts.items()
        for seed in range(5)
    ]


@pytest.mark.parametrize("which", ["x", "y"])
@pytest.mark.parametrize(
    "far, inches, wanted, unwanted", [(-3.0, 3, "-2", "-5"), (-8.0, 3, "-5", "2"), (-900, 1, "", "-20")]
)
def test_an_axis_has_labels_between_powers_of_ten_where_they_fit(which, far, inches, wanted, unwanted):
    """Without them, data between -1 and -10 have no label that says how far they are. None overlaps another label."""
    import matplotlib.pyplot as plt

    from experiments import figures

    figure, axes = plt.subplots(figsize=(inches, inches), layout="constrained")
    axes.plot(*([far, 0.5], [0, 1])[:: 1 if which == "x" else -1])
    figures._symmetric_log(axes, which, 1)
    figure.canvas.draw()
    axis = getattr(axes, f"{which}axis")
    low, high = axis.get_view_interval()
    large, small = (
        [tick.label1 for tick in ticks if tick.label1.get_text() and low <= tick.get_loc() <= high]
        for ticks in (axis.get_major_ticks(), axis.get_minor_ticks())
    )
    texts = {label.get_text() for label in small}
    assert (not wanted or wanted in texts) and unwanted not in texts
    assert {text.strip("-0.") for text in texts} <= {"2", "5"}
    pairs = [*itertools.product(small, large), *itertools.combinations(small, 2)]
    assert not any(a.get_window_extent().overlaps(b.get_window_extent()) for a, b in pairs), texts
    plt.close(figure)


def test_a_pair_is_compared_over_all_workloads_whatever_is_better_there():
    """An error that is larger by 0.02 is worse, as a hit rate that is lower. The workloads are one family."""
    higher, lower = runs_with(none=0.0, one=-0.02, other=0.001), runs_with(one=0.02, other=0.001)
    for run in lower:
        run["outcome"]["higher_is_better"] = False
    groups = {Case("ncf", 4): recorded_group(higher), Case("lstm", 4): recorded_group(lower)}
    groups[Case("vgg", 4)] = {"one": groups[Case("ncf", 4)]["one"]}  # where the other was not run
    found = contrasts(groups, {"ncf": 0.01, "lstm": 0.01}, "one", "other")
    assert {case.workload: beside.verdict for case, beside in found.items()} == dict.fromkeys(
        ("ncf", "lstm"), "different: worse"
    )
    assert [beside.mean for beside in found.values()] == pytest.approx([-0.021, 0.019])
    smaller, larger = sorted(found.values(), key=lambda beside: beside.p)
    assert smaller.corrected == pytest.approx(2 * smaller.p) and larger.corrected >= larger.p


def test_the_page_has_the_pairs_of_the_study_and_says_whether_rates_were_searched():
    from experiments import summarize

    study = grid.Grid(("ncf",), ("none",), MARGINS, "s", rates=Search(scales=(2.0,)))
    runs = runs_with(none=0.0, one=-0.02, other=0.001)
    text = summarize.table(runs, study, {})
    assert "that all got; none was searched" in text and "validation split" not in text
    assert "beside" not in text
    text = summarize.table(runs, dataclasses.replace(study, pairs=(("one", "other"),)), {})
    assert "## `one` beside `other`" in text
    (row,) = [line for line in text.splitlines() if line.startswith("| ncf, 4 workers |")]
    assert row.split(" | ")[1:4] == ["hit rate (higher is better)", "0.01", "-0.021 ± 0"]
    assert row.endswith("| different: worse |")
    searched = grid.Grid(("ncf",), ("none",), MARGINS, "s")
    assert "chosen by the validation split" in summarize._note(searched)


def test_the_overview_tells_a_small_loss_from_none_and_counts_what_could_be_told(tmp_path):
    from experiments import overview

    runs = runs_with(none=0.0, same=0.0, little=-0.003, large=-0.2)
    runs += [run_of(seed, 0.5 + seed / 10 + (-1) ** seed / 20, "noisy") for seed in range(5)]
    study = types.SimpleNamespace(margins={"ncf": 0.01}, recorded=lambda: runs, lacking=lambda by_compressor: [])
    found = overview.cells([study])
    (by_spec,) = found.values()
    assert {spec: cell.kind for spec, cell in by_spec.items()} == {
        "same": overview.EQUIVALENT,
        "little": overview.LITTLE_WORSE,
        "large": overview.WORSE,
        "noisy": overview.UNDECIDED,
    }
    assert by_spec["same"].power == 1 and by_spec["little"].power > 0.99 and by_spec["noisy"].power < overview.POOR
    text = overview.document(found, "")
    assert "| `little` | -0.3 = worse |" in text
    assert "1 of 4 verdicts are undecided." in text
    assert "| ncf, 4 workers | 4 | 1 | 0.00 | 1.00 | 1.00 | 1 |" in text
    overview.plot(found, tmp_path / "overview.png")
    assert (tmp_path / "overview.png").stat().st_size > 5_000


@pytest.mark.parametrize(
    "verdict, kind",
    [
        ("equivalent, though better", "= better"),
        ("different: better", "better"),
        ("diverges", "-"),
        ("search not over", "-"),
    ],
)
def test_kinds_of_verdicts(verdict, kind):
    from experiments import overview

    assert overview.kind_of(verdict) == kind
    assert kind in overview._COLOURS and kind in overview._MEANING


def test_passes_are_steps_times_batch_over_rows(monkeypatch):
    """1,500 steps of 16 of 12,000 rows are two passes."""
    from experiments import lengths, workloads

    fake = types.SimpleNamespace(rows=types.SimpleNamespace(train={"tokens": [0] * 12_000}), batch_size=16)
    monkeypatch.setattr(workloads, "get", lambda name: fake)
    assert workloads.steps("decoder", "small") == 1500
    assert lengths.passes("decoder") == pytest.approx(2.0)
