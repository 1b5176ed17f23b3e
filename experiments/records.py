"""Reads and writes results as JSON lines. Each line says what was run, with which versions and on which machine."""

from __future__ import annotations

import dataclasses
import datetime
import fcntl
import functools
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(os.environ.get("EXPERIMENTS_RESULTS", ROOT / "experiments" / "results"))
"""Where all studies read and write their results."""


@dataclasses.dataclass(frozen=True)
class Identified:
    """Settings that identify a run. A results file holds each setting once.

    Revisions are fields of the settings. The first one does not count: older records lack it.
    """

    @property
    def id(self) -> str:
        firsts = (("revision", 1), ("compressor_revision", 1))
        fields = {name: value for name, value in dataclasses.asdict(self).items() if (name, value) not in firsts}
        return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:16]


@dataclasses.dataclass(frozen=True)
class Setting(Identified):
    """The settings of a run with a compressor.

    Attributes:
      workload, size: see `experiments.workloads`.
      compressor: the compressor's canonical spec string.
      workers, seed, steps: of the run.
      learning_rate_scale: a factor on the workload's learning rate.
      collective: what carries the psums, "xla" or "jaxina".
      split: what the model is scored by, `workloads.TEST` or `workloads.VALIDATION`.
      revision: the workload's.
      compressor_revision: the compressor's.
    """

    workload: str
    size: str
    compressor: str
    workers: int
    seed: int
    steps: int
    learning_rate_scale: float
    collective: str
    split: str
    revision: int = 1
    compressor_revision: int = 1


def by_id(file: Path) -> dict[str, dict[str, Any]]:
    """Returns the records of a results file by the ids of their settings."""
    return {record["id"]: record for record in read(file)}


def read(file: Path) -> list[dict[str, Any]]:
    """Returns the records of a results file. A line that a crash cut short does not count."""
    if not file.exists():
        return []
    records = []
    for line in file.read_text().splitlines():
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return records


def append(file: Path, setting: Identified, outcome: Mapping[str, Any]) -> dict[str, Any]:
    """Adds one line to the file. When it returns the record, the line is on disk."""
    record = {
        "id": setting.id,
        "setting": dataclasses.asdict(setting),
        "outcome": dict(outcome),
        **ended(),
    }
    line = json.dumps(record, allow_nan=False)
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as lines:
        fcntl.flock(lines, fcntl.LOCK_EX)  # several processes may work on one study
        torn = file.stat().st_size > 0 and not file.read_bytes().endswith(b"\n")
        lines.write(("\n" if torn else "") + line + "\n")
        lines.flush()
        os.fsync(lines.fileno())
    return record


def ended() -> dict[str, Any]:
    """Returns what all results say of how they were made: when that ended, and with which code on which machine."""
    return {
        "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "provenance": provenance(),
    }


def when(results: Sequence[Mapping[str, Any]]) -> str:
    """Returns when results ended, as "at ..." or "between ... and ..."."""
    ends = sorted(result["finished"] for result in results)
    return f"between {ends[0]} and {ends[-1]}" if len(ends) > 1 else f"at {ends[0]}"


def made_with(results: Sequence[Mapping[str, Any]]) -> str:
    """Returns sentences on when results ended, and with which commits, versions and machines they were made."""
    sources: list[dict[str, Any]] = [result["provenance"] for result in results]
    commits = sorted({f"{s['commit'] or 'unknown'}"[:10] + "+" * s["uncommitted_changes"] for s in sources})
    versions = sorted({f"JAX {s['versions']['jax']}, Python {s['versions']['python']}" for s in sources})
    machines = sorted({f"{s['machine']['processor']}, {s['machine']['cores']} cores" for s in sources})
    return (
        f"Ended {when(results)}. Commit: {', '.join(commits)}"
        f"{' (+: with uncommitted changes)' if any('+' in commit for commit in commits) else ''}. "
        f"{'; '.join(versions)}. {'; '.join(machines)}."
    )


# What results depend on. Results themselves are no code, though they are tracked.
_CODE = ("experiments", "jaxina", "xla_ffi", "rdma_engine", "examples", ":(exclude)experiments/results")


@functools.cache
def provenance() -> dict[str, Any]:
    """Returns the versions, the code and the machine of this process.

    A commit does not say which code it was if there were changes. Hashes do: "code" is the one of all Python files
    that results depend on, "native" that of jaxina's native library, or None if it is not built.

    The first call counts. What runs for long calls it at its start: a commit made later is not what it has loaded.
    """
    packages = ("jax", "jaxlib", "flax", "optax", "numpy")
    return {
        "versions": {"python": platform.python_version()}
        | {name: importlib.metadata.version(name) for name in packages},
        "commit": _git("rev-parse", "HEAD"),
        "uncommitted_changes": bool(_git("status", "--porcelain", "--untracked-files=no", "--", *_CODE)),
        "code": code_hash([ROOT / "experiments", ROOT / "examples", _of_module("jaxina").parent]),
        "native": _native_hash(),
        "machine": {"processor": _processor(), "cores": os.cpu_count(), "system": platform.platform()},
    }


def code_hash(folders: Iterable[Path]) -> str:
    """Returns 16 hex digits that change with the name or the contents of any Python file in the folders."""
    found = hashlib.sha256()
    for folder in folders:
        for file in sorted(folder.rglob("*.py")):
            name = Path(folder.name, file.relative_to(folder)).as_posix()
            found.update(f"{name} {_hash(file)}\n".encode())
    return found.hexdigest()[:16]


def _native_hash() -> str | None:
    try:
        return _hash(_of_module("jaxina._native"))[:16]
    except ModuleNotFoundError:
        return None


def _of_module(name: str) -> Path:
    """Returns the file of a module as this process imports it. An installed jaxina may lie outside the checkout.

    Raises:
      ModuleNotFoundError: there is none.
    """
    found = importlib.util.find_spec(name)
    if found is None or found.origin is None:
        raise ModuleNotFoundError(f"no file of {name}", name=name)
    return Path(found.origin)


def _hash(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
