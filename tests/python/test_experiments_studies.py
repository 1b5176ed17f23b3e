"""Records and the files of studies. No test needs the data sets."""

from __future__ import annotations

import dataclasses
import re
import shutil

import jax
import pytest

pytest.importorskip("flax")
pytest.importorskip("optax")

from compressor_cases import get
from experiment_runs import MARGINS, SETTING

from experiments import convergence, grid, records, statistics
from experiments.records import Setting
from jaxina.errors import InvalidArgumentError


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
    assert re.fullmatch("[0-9a-f]{16}", record["provenance"]["code"])
    assert re.fullmatch("[0-9a-f]{16}", record["provenance"]["native"])


def test_the_code_of_a_result_is_known_by_what_its_files_hold(tmp_path):
    """Also with uncommitted changes, which a commit does not say."""
    package, other = tmp_path / "package", tmp_path / "copy" / "package"
    (package / "inner").mkdir(parents=True)
    (package / "inner/a.py").write_text("x = 1\n")
    (package / "notes.txt").write_text("")
    shutil.copytree(package, other)
    (other / "notes.txt").write_text("no code")
    before = records.code_hash([package])
    assert before == records.code_hash([other]), "where a checkout lies does not count"
    (package / "inner/a.py").write_text("x = 2\n")
    changed = records.code_hash([package])
    (package / "inner/a.py").rename(package / "inner/b.py")
    assert len({before, changed, records.code_hash([package])}) == 3


def test_a_process_says_what_code_it_has_loaded_at_first():
    assert records.provenance() is records.provenance()


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
        ({"seeds": "101"}, "1 to 100 seeds, since those above choose learning rates; not 101"),
        ({"collective": '"mpi"'}, "collective = 'mpi' is not one of xla, jaxina, deployed"),
        ({"size": '"huge"'}, "size = 'huge' is not one of small, large"),
        ({"workloads": '["resnett"]'}, "no workload 'resnett'; there are clickthrough, "),
        ({"compressors": '["none", "topj"]'}, "no compressor 'topj'"),
        ({"compressors": '["topk", "int8"]'}, "compressors lack none"),
        ({"pairs": '["topk", "none"]'}, "pairs = .* is not a list of pairs"),
        ({"pairs": '[["topk", "int8"]]'}, "pairs have int8, which is none of the compressors"),
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
        (["--config", study, "--seeds", "0"], "1 to 100 seeds"),
        (["--config", study, "--steps", "0"], "at least 1 step, not 0"),
        (["--config", study, "--workers", "0"], "at least 1 worker, not 0"),
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
