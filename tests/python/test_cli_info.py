"""`jaxina info`: versions, settings and their origins, the last run."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import jax
from rich.console import Console

import jaxina
from jaxina import Program, Report, Stays, config
from jaxina.cli import info as info_command
from jaxina.control import last_run


def info(*arguments, **environment):
    done = subprocess.run(
        [sys.executable, "-m", "jaxina.cli", "info", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "COLUMNS": "600", **environment},
    )
    return done.returncode, done.stdout, done.stderr


def test_versions_and_every_setting():
    code, out, err = info(JAXINA_SLOTS="9")
    assert code == 0, err
    assert jax.__version__ in out and re.search(r"codec +(scalar|avx2|avx512)", out)
    for field in config.fields():
        assert config.variable(field.name) in out
    (slots,) = [line for line in out.splitlines() if "JAXINA_SLOTS" in line]
    assert re.search(r"JAXINA_SLOTS\W+9\W+environment", slots)
    code, out, err = info(COLUMNS="80")
    assert code == 0 and len(out.splitlines()) < 60, "it should fit on a screen"


def test_a_setting_is_explained():
    code, out, err = info("slots", "JAXINA_RDMA_DEVICE", JAXINA_SLOTS="9")
    assert code == 0, err
    assert out.index("JAXINA_SLOTS") < out.index("JAXINA_RDMA_DEVICE")
    for field in config.fields():
        is_named = field.name in {"slots", "rdma_device"}
        assert (field.metadata["doc"] in out) == is_named
        assert not is_named or (config.default_text(field) in out and field.metadata["kind"].allowed in out)
    assert re.search(r"value +9\W+origin +environment", out)
    code, out, err = info("slots", "--json")
    assert code == 0 and [one["variable"] for one in json.loads(out)["settings"]] == ["JAXINA_SLOTS"]


def test_a_name_that_is_no_setting():
    code, _, err = info("slots", "[red]slot")
    assert code == 2 and err == "jaxina: INVALID_ARGUMENT: '[red]slot' is not a setting; `jaxina info` lists them\n"
    code, _, err = info("slots", "--last")
    assert code == 2 and "--last shows a run: give no setting beside it" in err


def test_json_has_the_same():
    code, out, err = info("--json", JAXINA_SLOTS="9", JAXINA_TOKEN="correct-horse-battery")
    assert code == 0, err
    found = json.loads(out)
    assert jax.__version__ in found["facts"]["jax, jaxlib"]
    settings = {one["variable"]: one for one in found["settings"]}
    assert (settings["JAXINA_SLOTS"]["value"], settings["JAXINA_SLOTS"]["origin"]) == ("9", "environment")
    assert settings["JAXINA_TOKEN"]["value"] == "(set)" and "horse" not in out


def test_the_version_is_that_of_pyproject():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert jaxina.__version__ == project["version"]
    done = subprocess.run([sys.executable, "-m", "jaxina.cli", "--version"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout == f"jaxina {project['version']}\n"


def test_a_token_is_not_printed(monkeypatch):
    monkeypatch.setenv("JAXINA_TOKEN", "correct-horse-battery")
    with open(os.devnull, "w") as nowhere:
        console = Console(width=300, record=True, file=nowhere)
        console.print(info_command._table(info_command._settings()))
    out = console.export_text()
    (row,) = [line for line in out.splitlines() if "JAXINA_TOKEN" in line]
    assert "(set)" in row and "environment" in row and "horse" not in out


def test_a_bad_value_is_one_line_and_exit_code_2():
    code, _, err = info(JAXINA_BLOCK_SIZE="big")
    assert code == 2
    assert "JAXINA_BLOCK_SIZE='big' is not allowed: give an integer from 8 to 16384" in err
    assert "Traceback" not in err


def test_debug_shows_the_traceback():
    done = subprocess.run(
        [sys.executable, "-m", "jaxina.cli", "--debug", "info"],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "JAXINA_BLOCK_SIZE": "big"},
    )
    assert done.returncode == 1 and "Traceback" in done.stderr


def test_the_last_run(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    code, out, _ = info("--last")
    assert code == 0 and "no run has been recorded" in out
    program = Program("jit_step", 2, 5, (Stays("all-reduce", 3, "dtype float8_e5m2", True),))
    last_run.write("udp", 4, {"collectives": 12}, Report((program,)))
    code, out, _ = info("--last")
    assert code == 0 and "udp, 4 processes" in out and '"collectives": 12' in out
    assert "jit_step: carries 2 collectives (5 tensors), 3 all-reduces with XLA (dtype float8_e5m2)" in out
    code, out, _ = info("--last", "--json")
    assert code == 0 and json.loads(out)["programs"][0]["stays"][0]["number"] == 3
    last_run.write("udp", 4, {"collectives": 0}, Report(()))
    assert "no program with collectives has been compiled" in info("--last")[1]


def test_a_record_that_cannot_be_written_fails_nothing(tmp_path, monkeypatch):
    (tmp_path / "jaxina").write_text("a file in the folder's place")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    last_run.write("udp", 4, {}, Report(()))
    assert last_run.read() is None
