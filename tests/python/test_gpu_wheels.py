"""What `make gpu-wheels` says about the size of what is to be copied to a machine with a GPU."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts/gpu_copy_size.sh"
MIB = 1 << 20


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A working tree with 1 MiB that git knows, 1 MiB that is new to it, and 5 MiB in build/, half of it brought."""
    for name, size in {
        "a source": MIB,
        "new": MIB,
        "build/brought/wheel": 5 * MIB // 2,
        "build/rest": 5 * MIB // 2,
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(size))
    (tmp_path / ".gitignore").write_text("/build\n/scripts\n")
    (tmp_path / "scripts").mkdir()
    shutil.copy(SCRIPT, tmp_path / "scripts")
    for command in ("init --quiet", "add .gitignore :/a*"):
        subprocess.run(["git", *command.split()], cwd=tmp_path, check=True)
    return tmp_path


def size(checkout: Path, limit: str) -> subprocess.CompletedProcess[str]:
    command = ["scripts/gpu_copy_size.sh", "build/brought", limit]
    return subprocess.run(command, cwd=checkout, capture_output=True, text=True)


def test_what_fits_is_said(checkout: Path):
    said = size(checkout, "5")
    assert said.stdout == "build/brought: 2.5 MiB, working tree: 2.0 MiB, together: 4.5 MiB of at most 5 MiB\n"
    assert (said.returncode, said.stderr) == (0, "")


def test_what_does_not_fit_fails_and_names_the_way_out(checkout: Path):
    said = size(checkout, "4")
    assert said.returncode == 1
    assert "too large to copy" in said.stderr and "git sparse-checkout set" in said.stderr


def test_files_that_a_sparse_tree_lacks_do_not_count(checkout: Path):
    (checkout / "a source").unlink()
    assert "working tree: 1.0 MiB, together: 3.5 MiB" in size(checkout, "4").stdout
