"""How studies choose learning rates, go on after an interruption, and estimate what is left. Nothing is trained."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import math
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

pytest.importorskip("flax")
pytest.importorskip("optax")

from experiments import (
    convergence,
    durations,
    grid,
    pretrained,
    rates,
    records,
    reproduce,
    search_noise,
    summarize,
    workloads,
)
from experiments.claims import Claims
from experiments.rates import Search
from experiments.recorded import grouped
from experiments.records import Setting
from experiments.trainer import Outcome
from experiments.workloads import TEST, VALIDATION
from jaxina import compressors
from jaxina.errors import InvalidArgumentError

RUN = Setting("ncf", "small", "topk", 4, 0, 100, 1.0, "xla", TEST)


def searched(search: Search, curve, higher_is_better: bool = True) -> tuple[dict, int]:
    """Returns the records of a search that sees the scores of `curve`, and in how many rounds it asked for them."""
    found, rounds = {}, 0
    while missing := search.missing(RUN, found):
        rounds += 1
        for setting in missing:
            assert setting.split == VALIDATION and setting.seed >= rates.FIRST_SEED
            score = curve(setting.learning_rate_scale)
            found[setting.id] = record_of(setting, score, higher_is_better)
    return found, rounds


def record_of(setting: Setting, score: float | None, higher_is_better: bool = True, seconds: float = 3.0) -> dict:
    outcome = {"scores": [[1, score]], "higher_is_better": higher_is_better, "step_seconds": 0.02, "seconds": seconds}
    return {"id": setting.id, "setting": dataclasses.asdict(setting), "outcome": outcome}


@pytest.mark.parametrize("best, rounds", [(1.0, 1), (2.0, 2), (0.125, 4), (16.0, 4), (1 / 64, 6)])
@pytest.mark.parametrize("higher", [True, False])
def test_the_best_rate_is_found_beyond_the_first_ones(best, rounds, higher):
    def curve(scale):
        return (-1 if higher else 1) * abs(math.log2(scale / best))

    search = Search(seeds=2)
    found, asked = searched(search, curve, higher)
    assert search.best(RUN, found) == best
    assert asked == rounds
    scores = search.scores(RUN, found)
    assert list(scores) == sorted(scores) and scores[best] == 0
    neighbours = {best / 2, best * 2} & set(scores)
    assert len(neighbours) == 2 or best in (search.smallest, search.largest)


def test_a_rate_that_diverges_is_the_worst_and_if_all_do_the_smallest_is_taken():
    search = Search(seeds=1)
    found, _ = searched(search, lambda scale: None if scale > 0.25 else 0.1)
    assert search.best(RUN, found) <= 0.25
    found, _ = searched(search, lambda scale: None)
    assert search.best(RUN, found) == search.smallest
    assert all(math.isnan(score) for score in search.scores(RUN, found).values())


def test_a_search_goes_on_where_it_was_and_gives_no_rate_before_its_end():
    search = Search(seeds=2)
    first, *others = search.missing(RUN, {})
    found = {first.id: record_of(first, 0.5)}
    assert search.missing(RUN, found) == others
    with pytest.raises(InvalidArgumentError, match="5 runs of the search are missing"):
        search.best(RUN, found)


def test_one_scale_needs_no_search():
    search = Search(scales=(0.5,))
    assert search.missing(RUN, {}) == []
    assert search.best(RUN, {}) == 0.5


@pytest.fixture
def study(tmp_path, monkeypatch):
    """A study of two compressors, four runs each with one seed for rates, in an empty folder."""
    monkeypatch.setattr(rates, "FILE", tmp_path / "tuning.jsonl")
    monkeypatch.setattr(durations, "PROBES", tmp_path / "probes.jsonl")
    monkeypatch.setattr(grid, "RESULTS", tmp_path)
    return grid.Grid(("ncf",), ("none", "topk"), {"ncf": 0.01}, "s", seeds=5, rates=Search(seeds=1))


def test_what_is_left_of_a_study_and_how_long_it_takes(study):
    assert len(durations.left(study)) == 2 * (3 + 5)
    none, _ = study.entries()
    place = durations.place_of(none)
    assert not durations.recorded(study).knows(place)

    def write(file, setting):
        records.append(file, setting, record_of(setting, 0.5, seconds=setting.steps * 0.02 + 4)["outcome"])

    for setting in study.rates.missing(none, {}):
        write(rates.FILE, setting)
    # All scores are equal, so the first rate is the best, and the search goes on beyond it to the smallest.
    left = durations.left(study)
    assert [run.learning_rate_scale for run in left if run.compressor == "none" and run.split == VALIDATION] == [0.25]
    while missing := study.rates.missing(none, records.by_id(rates.FILE)):
        for setting in missing:
            write(rates.FILE, setting)
    for run in study.runs(none, 1 / 64)[:2]:
        write(study.file, run)
    left = durations.left(study)
    assert [run.seed for run in left if run.compressor == "none"] == [2, 3, 4]

    known = durations.recorded(study)
    run = study.runs(none, 1 / 64)[2]
    assert known.seconds(run) == pytest.approx(run.steps * 0.02 + 4)
    other = dataclasses.replace(run, compressor="topk")  # never run: float32's step and a factor stand in
    assert known.seconds(other) > known.seconds(run)


def test_runs_with_a_rate_that_a_longer_search_gives_up_do_not_count(study):
    def write(file, setting, score):
        records.append(file, setting, record_of(setting, score)["outcome"])

    none, _ = study.entries()
    for setting in study.rates.missing(none, {}):  # rate x 1 is the best of three
        write(rates.FILE, setting, 0.9 if setting.learning_rate_scale == 1 else 0.5)
    for run in study.runs(none, 1.0):
        write(study.file, run, 0.7)
    assert len(study.recorded()) == 5

    longer = dataclasses.replace(study, rates=Search(scales=(0.25, 0.5, 1.0), seeds=2))
    assert len(longer.recorded()) == 5  # the search is not over, so nothing is given up
    while missing := longer.rates.missing(none, records.by_id(rates.FILE)):
        for setting in missing:  # with the second seed, x 0.5 is better
            write(rates.FILE, setting, 1.0 if setting.learning_rate_scale == 0.5 else 0.1)
    assert longer.recorded() == []
    write(longer.file, longer.runs(none, 0.5)[0], 0.8)
    assert [run["setting"]["learning_rate_scale"] for run in longer.recorded()] == [0.5]


def test_runs_of_one_s_choice_do_not_count_but_for_more_seeds(study):
    """They have other steps, another collective or another size, so their scores are not comparable."""
    none, other = study.entries()

    def write(setting):
        records.append(study.file, setting, record_of(setting, 0.7)["outcome"])
        return setting.id

    more = [write(dataclasses.replace(other, seed=seed)) for seed in (0, 7)]
    lacking = write(dataclasses.replace(none, compressor="qsgd"))  # --compressor may name one that the study lacks
    for changes in ({"steps": none.steps - 1}, {"collective": "jaxina"}, {"size": "large"}, {"split": VALIDATION}):
        write(dataclasses.replace(none, **changes))
    assert [run["id"] for run in study.recorded()] == [*more, lacking]


def test_of_a_workloads_revisions_the_newest_that_was_run_counts(study, monkeypatch):
    none, other = study.entries()

    def write(setting):
        records.append(study.file, setting, record_of(setting, 0.7)["outcome"])
        return setting.id

    old = [write(dataclasses.replace(run, revision=1)) for run in (none, other)]
    kind = workloads.kind(none.workload)
    monkeypatch.setattr(kind, "revision", 7)
    assert [run["id"] for run in study.recorded()] == old and grid.outdated(study.recorded()[0]) == "the workload"
    new = write(dataclasses.replace(study.entries()[0], seed=3))
    assert [run["id"] for run in study.recorded()] == [new] and not grid.outdated(study.recorded()[0])


def test_runs_of_a_compressor_that_has_changed_are_made_again_and_count_until_then(study, monkeypatch):
    none, topk = study.entries()

    def write(setting):
        records.append(study.file, setting, record_of(setting, 0.7)["outcome"])
        return setting.id

    first, *_, old = (write(run) for run in (none, topk))
    monkeypatch.setattr(type(compressors.get("topk")), "revision", 2)
    assert study.entries()[1].id != topk.id and study.entries()[0].id == none.id
    assert [run["id"] for run in study.recorded()] == [first, old]
    assert [grid.outdated(run) for run in study.recorded()] == ["", "the compressor"]
    (by_compressor,) = grouped(study.recorded()).values()
    assert summarize._outdated(by_compressor).startswith(" **Outdated:** `topk` changed after these runs")
    new = write(dataclasses.replace(study.entries()[1], seed=3))
    assert [run["id"] for run in study.recorded()] == [first, new]
    (by_compressor,) = grouped(study.recorded()).values()
    assert summarize._outdated(by_compressor) == ""


def test_a_setting_without_a_revision_keeps_its_id():
    """Runs were recorded before workloads and compressors had revisions."""
    fields = {name: value for name, value in dataclasses.asdict(RUN).items() if "revision" not in name}
    text = json.dumps(fields, sort_keys=True)
    assert RUN.id == hashlib.sha256(text.encode()).hexdigest()[:16]


class Interrupted(Exception):
    pass


def test_a_study_that_was_interrupted_goes_on_and_trains_nothing_twice(study, monkeypatch):
    """Runs end after one, two, ... of them. The rate with the best validation score is what the tests use."""
    trained, allowed = [], [0]

    class Trainer:
        programs = types.SimpleNamespace(
            workload=types.SimpleNamespace(base="", metric="hits", higher_is_better=True), parameter_count=lambda: 1
        )

        def __init__(self, programs, compressor, steps, collectives):
            self.compressor = compressor

        def run(self, seed, scale, split, evaluations, on_step):
            if not allowed[0]:
                raise Interrupted
            allowed[0] -= 1
            trained.append((self.compressor, seed, scale, split))
            return Outcome([3.0, 2.0], [(2, 1.0 - abs(scale - 2))], [0.01], 4.0, 4.0, False)

    monkeypatch.setattr(convergence, "Trainer", Trainer)
    monkeypatch.setattr(convergence.Study, "_of", lambda self, entry: None)
    for more in (1, 2, 3, 20):
        allowed[0] = more
        with contextlib.suppress(Interrupted):
            convergence.Study(study).run()
    assert len(trained) == len(set(trained)) == 2 * (4 + 5)  # half, one, two, four; then five seeds
    assert {scale for _, _, scale, split in trained if split == TEST} == {2.0}
    assert durations.left(study) == []
    record = records.read(study.file)[0]
    assert record["outcome"]["losses"] == [3.0, 2.0] and record["outcome"]["window"] == 1
    allowed[0] = 20
    convergence.Study(study).run()
    assert allowed[0] == 20


def test_runs_on_another_base_are_refused(study):
    none, _ = study.entries()
    record = record_of(none, 0.5)
    for other in ({"revision": none.revision + 1}, {"size": "large"}, {"workload": "vgg"}):
        convergence._check_base("ours", dataclasses.replace(none, **other), [record])
    record["outcome"]["base"] = "ours"
    convergence._check_base("ours", none, [record])
    with pytest.raises(
        InvalidArgumentError, match="ncf builds on other trained parameters here than in 1 recorded run"
    ):
        convergence._check_base("another", none, [record])


CLAIMING = """
import dataclasses, sys
from pathlib import Path
from experiments.claims import Claims
from experiments.records import Setting

with Claims(Path(sys.argv[1])) as claims, claims.taken(Setting(**eval(sys.argv[2])), wait=False) as taken:
    print(taken, flush=True)
    sys.stdin.read()
"""


@contextlib.contextmanager
def other_process(folder, setting):
    """Claims a setting. Yields the process."""
    with subprocess.Popen(
        [sys.executable, "-c", CLAIMING, folder, repr(dataclasses.asdict(setting))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=records.ROOT,
    ) as process:
        assert process.stdout.readline() == "True\n"
        try:
            yield process
        finally:
            process.kill()


def test_what_another_process_works_on_comes_last_and_is_not_made_again(study, monkeypatch):
    none, topk = study.entries()
    made = []

    def run_entry(self, entry, carrier, progress):
        made.append(entry)
        if entry == topk:
            process.kill()  # in the midst of its work: this process goes on with that

    monkeypatch.setattr(convergence.Study, "_run_entry", run_entry)
    with other_process(study.file.parent, none) as process:
        convergence.Study(study).run()
    assert made == [topk, none]


def test_a_claim_is_of_one_setting(tmp_path):
    other = dataclasses.replace(RUN, compressor="qsgd")
    with Claims(tmp_path) as claims:
        with (
            other_process(tmp_path, RUN),
            claims.taken(RUN, wait=False) as taken,
            claims.taken(other, wait=False) as others,
        ):
            assert (taken, others) == (False, True)
        with claims.taken(RUN, wait=True) as taken:
            assert taken
        with other_process(tmp_path, RUN):
            pass  # this process has given it back


def test_times_for_people():
    assert [reproduce.duration(s) for s in (4.4, 61, 3600, 90061)] == ["4 s", "1 min", "1 h 0 min", "25 h 1 min"]


def test_what_fewer_runs_of_a_search_cost():
    scores = {0.5: np.array([4.0, 0.0, 0.0]), 1.0: np.array([1.0, 2.0, 3.0]), 2.0: np.array([-math.inf, 9.0, 9.0])}
    every = (0, 1, 2)
    assert [search_noise.picked(scores, runs) for runs in ((0,), (1,), (0, 1), every)] == [0.5, 2.0, 0.5, 1.0]
    assert search_noise.lost(scores, (0,), every) == pytest.approx(2 / 3)
    assert search_noise.lost(scores, (0,), (1, 2)) == 9.0
    assert search_noise.lost(scores, (1,), every) == math.inf
    assert search_noise.lost({1.0: np.array([-math.inf, 1.0])}, (0,), (0, 1)) == 0


def test_every_choice_of_the_runs_counts_and_its_own_runs_flatter_it():
    scores = {1.0: np.array([0.0, 0.0, 0.0]), 2.0: np.array([3.0, -1.0, -1.0])}
    noise = search_noise.noise_of([scores, {1.0: np.zeros(3), 2.0: np.full(3, -1.0)}], 1)
    assert noise.others == pytest.approx(2 / 6)  # the second and the third run pick 1, all pick 2
    assert noise.at_least == pytest.approx([0, 1 / 3, 1 / 3, 0, 0, 0])
    assert noise.at_most == pytest.approx([1, 1, 1, 0, 0, 0])


def test_only_searches_with_the_most_runs_are_asked(monkeypatch):
    few, many = Search(seeds=1), Search(seeds=2)
    study = grid.Grid(("ncf",), ("topk",), {"ncf": 0.5}, "x", rates=many, steps=100)
    other = dataclasses.replace(study, compressors=("none",), rates=few)
    found = {}
    for part in (study, other):
        for entry in part.entries():
            while missing := part.rates.missing(entry, found):
                found |= {run.id: record_of(run, -abs(run.learning_rate_scale - 1) + run.seed) for run in missing}
    monkeypatch.setattr(grid.Grid, "read", lambda file: {"a": study, "b": other, "c": study}[file])
    monkeypatch.setattr(search_noise, "CONFIGS", types.SimpleNamespace(glob=lambda pattern: ["a", "b", "c"]))
    monkeypatch.setattr(records, "by_id", lambda file: found)
    (scores,) = search_noise.searches()
    assert {scale: list(every) for scale, every in scores.items()} == {
        0.5: [199.0, 201.0],
        1.0: [200.0, 202.0],
        2.0: [198.0, 200.0],
    }


def test_only_without_a_stage_names_the_stages_and_times_nothing(monkeypatch, capsys):
    monkeypatch.setattr(reproduce, "_call", lambda command: pytest.fail(command))
    with pytest.raises(SystemExit) as ended:
        reproduce.main(["--plan", "--only", "ncf", "--only", "nosuch"])
    (line,) = capsys.readouterr().err.splitlines()
    assert ended.value.code == 2 and line.startswith(
        "error: no stage has 'nosuch' in its name. The stages are: data sets"
    )
    assert "convergence: ncf, 4 workers; " in line


def test_only_the_workloads_that_are_asked_for_are_timed(monkeypatch, tmp_path):
    """Each by the study that has it."""
    monkeypatch.setattr(rates, "FILE", tmp_path / "tuning.jsonl")
    monkeypatch.setattr(durations, "PROBES", tmp_path / "probes.jsonl")
    monkeypatch.setattr(grid, "RESULTS", tmp_path)
    commands = []
    monkeypatch.setattr(reproduce, "_call", lambda command: commands.append(command) or 0)
    stages = list(reproduce.studies("small", Console(quiet=True), True, lambda name: "decoder" in name))
    assert [stage.name for stage in stages] == ["transformers: decoder, 4 workers"]
    assert commands == ["probe decoder --config experiments/configs/transformers.toml --workers 4 --size small"]


def test_a_stage_is_run_in_the_checkout_from_any_folder(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(records, "RESULTS", Path("mine"))
    assert reproduce._call("summarize experiments/configs/fixed_shift.toml") == 0
    assert capfd.readouterr().out == f"{tmp_path / 'mine/fixed_shift.jsonl'} has no runs yet\n"


def test_over_real_links_small_models_alone_are_measured():
    assert reproduce.unknown(["over real links"], "small") == ""
    assert "no stage has 'over real links'" in reproduce.unknown(["over real links"], "large")


@pytest.mark.parametrize("size", ["small", "large"])
def test_models_that_are_built_on_and_tables_are_of_the_size_that_is_trained(tmp_path, monkeypatch, size):
    commands = []
    monkeypatch.setattr(reproduce, "_call", lambda command: commands.append(command) or 0)
    monkeypatch.setattr(pretrained, "FOLDER", tmp_path)
    reproduce.main(["--size", size, "--only", "base of lora"])
    base, tables = commands[:2]
    assert base == f"pretrained --size {size}" and tables.startswith(f"summarize --size {size} ")
