"""`jaxina certify`: what it combines, how it judges, and that it finds a difference of one bit."""

from __future__ import annotations

import collections
import dataclasses
import json
import subprocess
import sys
from pathlib import Path

from patience import PATIENCE
from typer.testing import CliRunner

from jaxina.certificate import combinations
from jaxina.certificate.combinations import LAYOUTS, LOSS, Case, Interpreter, Layout, Setting, Suite
from jaxina.certificate.verdict import SuiteResult, judge
from jaxina.cli.app import app
from jaxina.errors import InvalidArgumentError

HERE_FOLDER = Path(__file__).parent
HERE = Interpreter("python", {"jax": "0.10.2", "python": "3.11.7", "jaxina": "0.1.0"}, ("scalar", "avx2"), "no device")
RIGHT, OTHER = "a" * 64, "b" * 64
SUITE = Suite(HERE, "avx2", Layout(2), (Setting("embedded"), Setting("direct", LOSS)), (Case(32), Case(8)))


# ---- what is combined


def test_the_certificate_has_enough_combinations_and_none_twice():
    suites, not_run = combinations.plan([HERE], quick=False, testbed=False)
    every = [combination for suite in suites for combination in suite.combinations()]
    assert len(every) >= 500 and len(set(map(str, every))) == len(every)
    assert {str(one.suite.layout) for one in every} == {"1x4", "2x2", "4x1"}
    assert {one.case.bits for one in every} == {64, 32, 16, 8}
    between = {one.setting.transport for one in every if one.suite.layout.processes > 1}
    assert between == {"embedded", "direct", "atp", "udp", "roce", "netreduce"}
    assert {one.setting.transport for one in every if one.suite.layout.processes == 1} == {"inside"}
    assert {one.setting.transport for one in every if one.setting.loss} == between - {"embedded"}
    assert {one.suite.codec for one in every} == {"scalar", "avx2"}
    assert {one.what for one in not_run} >= {"codec avx512", "RDMA devices"}


def test_each_interpreter_gets_the_same_combinations():
    newer = dataclasses.replace(HERE, path="other", versions={**HERE.versions, "jax": "0.12.0"})
    both, _ = combinations.plan([HERE, newer], quick=True, testbed=False)
    assert collections.Counter(suite.interpreter.versions["jax"] for suite in both) == {"0.10.2": 3, "0.12.0": 3}
    assert len({suite.key for suite in both}) == len(both)


# ---- how it judges


def result_of(suite=SUITE, error="", reference=RIGHT, dropped=3, **hashes):
    """What processes write that all have the right hash, except those given as p0s1c0=..., of a setting and a case."""
    lines = []
    for process in range(suite.layout.processes):
        mine = [{"kind": "reference", "bits": bits, "hash": reference} for bits in (32, 8)] if reference else []
        for setting in range(len(suite.settings)):
            for case in range(len(suite.cases)):
                hash_ = hashes.get(f"p{process}s{setting}c{case}", RIGHT)
                given = [hash_] * suite.layout.devices
                mine.append({"kind": "sum", "setting": setting, "case": case, "hashes": given, "collectives": 7})
            counters = {"packets_dropped": dropped, "retransmissions": dropped}
            mine.append({"kind": "setting", "setting": setting, "statistics": counters})
        lines.append(mine)
    return SuiteResult(suite, lines, error, "its last words", 1.0)


def told(*results):
    return [f"{one.combination}: {one.problem}" for one in judge(results).problems]


def test_equal_hashes_are_good():
    verdict = judge([result_of()])
    assert not verdict.problems and len(verdict.outcomes) == len(SUITE) == 4
    assert {(one.bits, one.hash, one.by) for one in verdict.classes} == {
        (32, RIGHT, "specification"),
        (8, RIGHT, "specification"),
    }
    assert verdict.lost["direct", "2x2"] == (6, 6)


def test_one_process_that_differs_is_named_with_its_combination():
    (one,) = told(result_of(p1s1c1=OTHER))
    settings = "direct, 5% loss, default slots, default chunks, 8 bits, default buckets, inputs in order"
    assert one.startswith(f"JAX 0.10.2, avx2, 2x2, {settings}: ")
    assert "device 2, 3 has bbbbbbbbbbbb, the specification says aaaaaaaaaaaa" in one


def test_all_that_agree_on_what_the_specification_does_not_say_are_wrong():
    assert len(told(result_of(reference=OTHER))) == 4


def test_interpreters_that_disagree_about_the_specification_are_found():
    assert len(told(result_of(), result_of(reference=OTHER))) == 8


def test_without_a_specification_the_one_that_differs_is_named():
    wide = dataclasses.replace(SUITE, cases=(Case(64),))
    (one,) = told(result_of(wide, reference=None), result_of(wide, reference=None, p0s0c0=OTHER))
    assert "device 0, 1 has bbbbbbbbbbbb, most others of this width have aaaaaaaaaaaa" in one


def test_layouts_are_compared_with_each_other():
    wide = [dataclasses.replace(SUITE, layout=layout, cases=(Case(64),)) for layout in LAYOUTS[1:]]
    every = {f"p{process}s{setting}c0": OTHER for process in range(2) for setting in range(2)}
    found = told(result_of(wide[0], reference=None, **every), result_of(wide[1], reference=None))
    assert len(found) == 2  # those of one layout


def test_what_shows_nothing_is_not_good():
    nothing_carried = result_of()
    for line in nothing_carried.lines[0]:
        if line["kind"] == "sum":
            line["collectives"] = 0
    assert all("did not carry" in one for one in told(nothing_carried)) and len(told(nothing_carried)) == 4
    assert [one for one in told(result_of(dropped=0)) if "no packet was dropped" in one] == told(result_of(dropped=0))
    assert len(told(result_of(dropped=0))) == 2  # those with loss


def test_what_did_not_run_to_its_end_is_not_good():
    broken = result_of(error="worker 1 was killed")
    broken.lines[1][:] = [line for line in broken.lines[1] if line.get("setting") == 0]
    found = told(broken)
    assert len(found) == 2 and all("not every process formed the sums: worker 1 was killed" in one for one in found)


# ---- the command


def small(worker, *options):
    """Runs the command with four combinations, in a process of its own: it forks."""
    command = [sys.executable, HERE_FOLDER / "small_certificate.py", worker, *options]
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=PATIENCE)


def test_sums_have_the_bits_of_the_specification(tmp_path: Path):
    file = tmp_path / "certificate.json"
    done = small("usual", "--json", file)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 of 4 combinations have the bits" in done.stdout
    found = json.loads(file.read_text())
    assert found["verdict"]["problems"] == []
    assert {one["as"] for one in found["verdict"]["hashes"]} == {"specification"}
    again = small("none", "--json", file, "--resume")  # what has run is not run again
    assert again.returncode == 0 and "4 of 4 combinations" in again.stdout, again.stderr


def test_a_bit_that_differs_is_found_and_named():
    done = small(HERE_FOLDER / "flipped_bit.py")
    assert done.returncode == 1
    assert "3 of 4 combinations have the bits" in done.stdout, done.stdout + done.stderr
    (failed,) = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
    settings = "direct, 5% loss, default slots, default chunks, 8 bits, default buckets, inputs in order"
    assert f"scalar, 2x2, {settings}: device 3 has" in failed


def test_a_python_without_jaxina_is_refused():
    done = CliRunner().invoke(app, ["certify", "--python", "/bin/false"])
    assert isinstance(done.exception, InvalidArgumentError) and "Install jaxina there" in done.exception.message


def test_a_python_with_another_jaxina_is_refused(tmp_path: Path):
    other = tmp_path / "python"
    told = {"versions": {**HERE.versions, "jaxina": "0.0.9"}, "codecs": ["scalar"], "verbs": "none"}
    other.write_text(f"#!/bin/sh\necho '{json.dumps(told)}'\n")
    other.chmod(0o755)
    done = CliRunner().invoke(app, ["certify", "--python", str(other)])
    assert isinstance(done.exception, InvalidArgumentError)
    assert f"--python {other} has jaxina 0.0.9" in done.exception.message


def test_resume_needs_a_file(tmp_path: Path):
    done = CliRunner().invoke(app, ["certify", "--resume"])
    assert isinstance(done.exception, InvalidArgumentError) and "--resume needs --json" in done.exception.message
    file = tmp_path / "broken.json"
    file.write_text("{}")
    done = CliRunner().invoke(app, ["certify", "--quick", "--resume", "--json", str(file)])
    assert isinstance(done.exception, InvalidArgumentError) and "no certificate" in done.exception.message
