#!/usr/bin/env python3
"""Runs test files of JAX's own suite twice, without and with jaxina, and prints the tests whose outcomes differ.

    git clone --depth 1 --branch jax-v0.10.2 https://github.com/jax-ml/jax FOLDER
    scripts/run_jax_suite.py --jax-tests FOLDER                   # shard_map and pmap, one process of eight devices
    scripts/run_jax_suite.py --jax-tests FOLDER --processes 2     # the multi-process tests, one device in each process

FOLDER is a checkout of JAX at the release that is installed. The exit code is 1 if any test has another outcome with
jaxina.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

PLUGIN = Path(__file__).resolve().parents[1] / "tests" / "jax_suite"
FILES = ("tests/shard_map_test.py", "tests/pmap_test.py")
# The multi-process tests, without those that need a TPU, a GPU or other packages, and those that compute nothing.
MULTIPROCESS_FILES = tuple(
    f"tests/multiprocess/{name}_test.py"
    for name in (
        "all_gather", "all_reduce", "all_to_all", "array", "axis_index", "device_id", "host_callback",
        "multihost_utils", "pjit", "pmap", "wait_barrier",
    )
)  # fmt: skip
MODES = {"native": (), "jaxina": ("--jaxina",)}
LIMIT_S = 3 * 3600


def run(checkout: Path, file: str, mode: str, outcomes: Path, processes: int, pytest_options: list[str]) -> None:
    """Runs the file's tests. The file `outcomes` gets a JSON line when a test starts and one when it ends.

    If there are several processes, each has its own file, whose name ends with the rank.
    """
    outcomes = outcomes.resolve()
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(PLUGIN)}
    command = [sys.executable]
    if processes > 1:
        command += ["-m", "jaxina.cli", "run", "-n", str(processes), "--aggregator", "embedded"]
    else:
        # Under pytest, pmap_test.py asks for its devices too late and would run with one.
        environment["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
    command += ["-m", "pytest", "-q", "-p", "jaxina_suite_plugin", "-p", "no:cacheprovider"]
    command += ["--outcomes", str(outcomes), *MODES[mode], *pytest_options, file]
    with outcomes.with_suffix(".log").open("w") as log:
        subprocess.run(
            command, cwd=checkout, env=environment, stdout=log, stderr=subprocess.STDOUT, timeout=LIMIT_S, check=False
        )


def read(outcomes: Path, processes: int) -> dict[str, Any]:
    """Returns the outcome and the details of every test, by its id and, if there are several processes, its rank.

    The outcome of a test that ended its process is "crashed".
    """
    tests: dict[str, Any] = {}
    for rank, file in enumerate(saved(outcomes, processes)):
        for line in file.read_text().splitlines():
            entry = json.loads(line)
            tests[entry["test"] + (f", process {rank}" if processes > 1 else "")] = entry
    for entry in tests.values():
        if entry["outcome"] == "started":
            entry["outcome"] = "crashed"
    return tests


def saved(outcomes: Path, processes: int) -> list[Path]:
    """Returns the files that the processes write."""
    if processes == 1:
        return [outcomes]
    return [outcomes.with_name(f"{outcomes.name}.{rank}") for rank in range(processes)]


def counts(tests: dict[str, Any]) -> str:
    by_outcome = collections.Counter(entry["outcome"] for entry in tests.values())
    carried = max((entry.get("collectives", 0) for entry in tests.values()), default=0)
    told = ", ".join(f"{number} {outcome}" for outcome, number in sorted(by_outcome.items()))
    return told + (f"; {carried} collectives carried" if carried else "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jax-tests", type=Path, required=True, metavar="FOLDER", help="a checkout of JAX")
    parser.add_argument("--results", type=Path, default=Path("out/jax_suite"))
    parser.add_argument("--only", choices=tuple(MODES), help="run this mode; compare with an earlier run of the other")
    parser.add_argument(
        "--processes", type=int, default=1, help="processes of one device each; 1: one process of eight devices"
    )
    parser.add_argument("--files", nargs="+", help="run these test files instead of the default ones")
    parser.add_argument("pytest_options", nargs="*", help="options of pytest, after --: -- -k psum")
    options = parser.parse_args()
    options.results.mkdir(parents=True, exist_ok=True)

    differing = 0
    total = 0
    for file in options.files or (FILES if options.processes == 1 else MULTIPROCESS_FILES):
        outcomes: dict[str, Any] = {}
        for mode in MODES:
            target = options.results / f"{Path(file).stem}-{options.processes}-{mode}.jsonl"
            files = saved(target, options.processes)
            if options.only in (None, mode):
                for one in files:
                    one.unlink(missing_ok=True)
                run(options.jax_tests, file, mode, target, options.processes, options.pytest_options)
            outcomes[mode] = read(target, options.processes) if all(one.exists() for one in files) else None
            print(f"{file} {mode}: {counts(outcomes[mode] or {}) or 'not run yet'}", flush=True)
        if None in outcomes.values():
            continue
        total += len(outcomes["native"])
        for test in sorted({*outcomes["native"], *outcomes["jaxina"]}):
            native, ours = (outcomes[mode].get(test, {"outcome": "missing"}) for mode in MODES)
            if native["outcome"] != ours["outcome"]:
                differing += 1
                last = ours.get("error", "").strip().splitlines()[-1:] or [""]
                print(f"  {test}: {native['outcome']} -> {ours['outcome']}  {last[0]}")
    print(f"{differing} of {total} tests have another outcome with jaxina")
    return int(differing > 0)


if __name__ == "__main__":
    sys.exit(main())
