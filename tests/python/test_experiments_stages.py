"""What `experiments.reproduce` finds made, reads out of the results, and makes again only if it is told to."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import types

import pytest
from rich.console import Console

pytest.importorskip("flax")
pytest.importorskip("optax")

from experiments import pretrained, records, reproduce, stages
from experiments.data import packages
from experiments.fabric import lda
from experiments.reproduce import Stage
from experiments.stages import ANALYSES, Analysis, State, of_base, of_document, of_packages, of_races

MADE = {"draws": 5, "seconds": 190.0, "finished": "2026-11-29T08:31:02+00:00"}


@pytest.fixture
def study(tmp_path):
    """A measurement without a result."""
    return types.SimpleNamespace(FILE=tmp_path / "study.json", settings=lambda: {"draws": 5})


@pytest.fixture
def called(monkeypatch):
    """The commands that would have been run."""
    commands: list[str] = []
    monkeypatch.setattr(reproduce, "_call", lambda command: commands.append(command) or 0)
    return commands


def without(document, name):
    return {key: value for key, value in document.items() if key != name}


@pytest.mark.parametrize(
    "document, state",
    [
        (None, State("not made", None)),
        (MADE, State("", 190.0, "made on 2026-11-29 in 3 min")),
        (without(MADE, "seconds"), State("", None, "made on 2026-11-29; time not recorded")),
        (without(MADE, "finished"), State("", 190.0, "made; the day is not recorded")),
        (MADE | {"draws": 4}, State("out of date", 190.0)),
    ],
)
def test_whether_a_measurement_is_made_is_read_out_of_its_result(study, document, state):
    if document is not None:
        study.FILE.write_text(json.dumps(document))
    assert of_document(study, "small") == state


@pytest.mark.parametrize("name, analysis", [*ANALYSES.items(), *stages.MEASUREMENTS.items()])
def test_results_of_a_fresh_checkout_count_as_made(name, analysis):
    """But for what git ignores."""
    if name not in ("data sets", "base of lora"):
        state = analysis.state("small")
        assert state.left == "" and state.made.startswith("made on 2026-"), state


def test_made_again_is_only_what_was_asked_for(called):
    """Pages come each time. They are computed from what is recorded, and overwrite no measurement."""
    only = ["--only", "of compression", "--only", "over real links", "--only", "bias"]
    reproduce.main(only)
    pages = [command.format(size="small") for command in reproduce.PAGES.values()]
    assert called == pages
    called.clear()
    reproduce.main([*only, "--again", "compression_cost"])
    assert called == ["compression_cost", *pages]
    called.clear()
    reproduce.main(["--only", "bias", "--again", "measured_time"])
    assert called == [*pages, "measured_time"]


@pytest.mark.parametrize("size, command", [("small", "convergence"), ("large", "measured_time")])
def test_what_cannot_be_made_again_is_refused(called, capsys, size, command):
    with pytest.raises(SystemExit) as ended:
        reproduce.main(["--size", size, "--again", command])
    (line,) = capsys.readouterr().err.splitlines()
    assert ended.value.code == 2 and line.startswith("error: --again takes unbiased_rounding, effect_of_f, ")
    assert line.endswith(f"; not '{command}'") and not called


def test_what_is_made_again_takes_as_long_as_before(study):
    study.FILE.write_text(json.dumps(MADE))
    named = {"costs": Analysis("study", lambda size: of_document(study, size), repeatable=True)}
    (stage,) = reproduce.analyses(named, "small", ["study"])
    assert (stage.left, stage.seconds) == ("again", 190.0)


def races(file, wall_seconds):
    settings = lda.settings(["ring", "async"], 2, 300)
    for setting, seconds in zip(settings, wall_seconds, strict=False):
        records.append(file, setting, {"seconds": 9e9} | ({"wall_seconds": seconds} if seconds else {}))
    return of_races(file, settings)


def test_races_that_are_recorded_are_not_missing(tmp_path):
    assert races(tmp_path / "none", []) == State("4 races", None)
    assert races(tmp_path / "some", [10.0, 30.0]) == State("2 races", 40.0)
    assert races(tmp_path / "all", [10.0, 30.0, 20.0, 60.0]).made.endswith(" in 2 min")
    older = races(tmp_path / "older", [None, 30.0, 20.0, 60.0])
    assert older.left == "" and older.made.endswith("; time not recorded")


def test_a_data_set_that_lacks_is_downloaded(tmp_path, monkeypatch):
    monkeypatch.setattr(packages, "FOLDER", tmp_path)
    assert of_packages("small") == State(f"{len(packages.ALL)} downloads", None)
    for package in packages.ALL:
        package.archive.touch()
    assert of_packages("small").left == ""


def test_the_base_of_lora_takes_as_long_as_a_run_of_its_model(tmp_path, monkeypatch):
    monkeypatch.setattr(pretrained, "FOLDER", tmp_path)
    state = of_base("small")
    assert state.left == "not made" and state.seconds is not None and state.seconds > 10
    (tmp_path / "shakespeare-small-1500-2.npz").touch()
    assert of_base("small").left == ""


def said(*chosen):
    text = io.StringIO()
    reproduce.show(chosen, Console(width=120, file=text))
    return text.getvalue()


def test_the_plan_says_what_was_made_when_and_adds_up_what_is_known():
    made = Stage("costs", "compression_cost", "", None, "made on 2026-11-29; time not recorded")
    missing, unknown = (
        Stage("ncf", "convergence", "2 runs", 7200.0),
        Stage("data", "data.packages", "6 downloads", None),
    )
    text = said(made)
    assert "made on 2026-11-29; time not recorded" in text and "Nothing is missing." in text and "0 s" not in text
    text = said(made, missing, unknown)
    assert "2 h 0 min on a machine as busy" in text and "Stages of unknown time: 1." in text
    assert "0 s" not in said(made, unknown)


def test_to_import_the_cost_of_compression_changes_no_setting():
    """`reproduce` imports it, and the stages that it starts inherit its environment."""
    code = "from experiments import compression_cost; import os; print(os.environ['XLA_FLAGS'])"
    environment = os.environ | {"XLA_FLAGS": "--xla_dump_to=x"}
    done = subprocess.run([sys.executable, "-c", code], cwd=records.ROOT, env=environment, capture_output=True)
    assert done.stdout == b"--xla_dump_to=x\n"
