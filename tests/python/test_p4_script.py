"""scripts/p4.sh with compilers that fail. They are scripts that stand for one."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SIZES = ("one-pipe", "two-pipes", "four-pipes", "atp")


def run(folder, compiler):
    """Runs the script with a compiler that knows Tofino, writes much, empties its folder, and then does as told."""
    (folder / "bin").mkdir()
    program = folder / "bin" / "p4c"
    program.write_text(f"""#!/bin/bash
case $1 in --target-help) seq 100000; echo tofino; exit;; --version) echo 1; exit;; esac
while [ $# -gt 0 ]; do [ "$1" = -o ] && out=$2; shift; done
rm -rf "$out"; mkdir -p "$out"
{compiler}
""")
    program.chmod(0o755)
    found = {**os.environ, "PATH": f"{folder / 'bin'}:/usr/bin:/bin"}
    return subprocess.run([ROOT / "scripts/p4.sh", folder / "out"], env=found, capture_output=True, text=True)


def test_a_compilers_error_is_shown_and_its_log_is_kept(tmp_path):
    done = run(tmp_path, "echo 'error: no room'; exit 1")
    assert done.returncode == 1
    for size in SIZES:
        assert f"p4: {size}: failed" in done.stdout
        assert (tmp_path / f"out/{size}.log").read_text() == "error: no room\n"
    assert done.stdout.count("error: no room") == len(SIZES)


@pytest.mark.parametrize("made", ["true", "mkdir $out/pipe; echo 'parser ingress:' > $out/pipe/jaxina.bfa"])
def test_a_compiler_that_ends_before_it_assembles_is_an_error(tmp_path, made):
    done = run(tmp_path, made)
    assert done.returncode == 1
    assert done.stdout.count("has made no tofino.bin") == len(SIZES)


def test_without_a_compiler_it_says_so(tmp_path):
    empty = tmp_path / "bin"
    empty.mkdir()
    found = {**os.environ, "PATH": f"{empty}:/usr/bin:/bin"}
    done = subprocess.run([ROOT / "scripts/p4.sh", tmp_path / "out"], env=found, capture_output=True, text=True)
    assert done.returncode == 0 and "skipped" in done.stdout
