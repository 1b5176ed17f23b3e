#!/usr/bin/env python3
"""Runs twenty programs of plain jit with shardings, with jaxina and with gloo, and compares the results in a table.

    python benchmarks/jax/partitioned.py [--processes 2 4] [--programs x.T "train step, FSDP"] [--aggregator udp]

There are two jobs for each number of processes, with one CPU device in each process. In `jaxina run`, jaxina carries
XLA's own collectives. In `jaxina run --no-catch-all`, gloo keeps them. The exit code is 1 if a program does not run, if
a result differs by more than its bound, or if the engine has not carried the sums that the report says. The columns:

    difference  =     The results are equal bit for bit, in every process. They must be if no sum is carried.
                0.12  The largest difference of any element, as a share of its bound (partitioned_bound.py).
    bound       The largest bound of a result, as a share of the result's largest element.
    engine      The sums that the engine counted in one run of the program. Every process must have the same number.
    report      The sums in jaxina's report. A sum in a loop counts once for each turn. The report counts collectives of
                all kinds; the optimized HLO module says how many of them are not sums.
    others      The collectives in one run that are not sums.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
import partitioned_bound
from partitioned_programs import Program, programs
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

WORKER = Path(__file__).with_name("partitioned_worker.py")
WAYS = {"jaxina": (), "gloo": ("--no-catch-all",)}
LIMIT_S = 600


@dataclasses.dataclass
class Row:
    """The table's cells for a program and a number of processes. `wrong` says what is wrong, if anything."""

    difference: str = ""
    bound: str = ""
    engine: str = ""
    report: str = ""
    others: str = ""
    wrong: str = ""


def job(way: str, n: int, names: list[str], aggregator: str, folder: Path, progress: Progress) -> tuple[int, str]:
    """Runs one job. Returns its exit code and its output."""
    command = [sys.executable, "-m", "jaxina.cli", "run", "-n", str(n), "--aggregator", aggregator, *WAYS[way]]
    log, task = folder / "log", progress.add_task(f"{n} processes, {way}", total=len(names))
    deadline = time.monotonic() + LIMIT_S
    with log.open("w") as output:
        running = subprocess.Popen(
            [*command, str(WORKER), str(folder), *names], stdout=output, stderr=subprocess.STDOUT
        )
        while running.poll() is None:
            progress.update(task, completed=len(list(folder.glob("*.0.json"))))
            if time.monotonic() > deadline:
                running.terminate()
            time.sleep(0.1)
    progress.update(task, completed=len(list(folder.glob("*.0.json"))))
    return running.returncode, log.read_text()


def found_in(folder: Path, number: int, process: int) -> dict[str, Any]:
    file = folder / f"{number}.{process}.json"
    return json.loads(file.read_text()) if file.exists() else {"error": "the job ended before"}


def compare(program: Program, number: int, n: int, folders: dict[str, Path]) -> Row:
    found = {way: [found_in(folder, number, r) for r in range(n)] for way, folder in folders.items()}
    for way, process in itertools.product(found, range(n)):
        if error := found[way][process].get("error"):
            return Row(wrong=f"{way}, process {process}: {error}")
    first = found["jaxina"][0]
    in_text = first["text_sums"]
    # The report counts arrays in the program's text, of all kinds of collectives. Replacing these by the text's sums,
    # each as often as its loop repeats it, gives the number of sums in a run.
    reported = first["tensors"] - first["text_arrays"] + in_text
    row = Row(engine=str(first["counted"]), report=str(reported), others=str(first["text_others"]))
    if first["carried"] != first["text_collectives"] or first["tensors"] != first["text_arrays"] or first["stays"]:
        row.report = "?"
        row.wrong = (
            f"the report says {first['carried']} collectives of {first['tensors']} arrays {first['stays']}, "
            f"the program has {first['text_collectives']} of {first['text_arrays']}"
        )
    elif any(one["counted"] != reported for one in found["jaxina"]):
        row.wrong = f"the engine counted {[one['counted'] for one in found['jaxina']]}, the report says {reported}"
    elif any(one["counted"] or one["carried"] for one in found["gloo"]):
        row.wrong = "jaxina carried something in the job that gloo was to carry"
    mesh = program.mesh(jax.devices()[:n])
    with jax.set_mesh(mesh):
        bounds = partitioned_bound.bounds(program.unjitted, program.inputs, n) if in_text else []
    shares, largest, equal = [0.0], [0.0], True
    for process in range(n):
        ours, theirs = (np.load(folders[way] / f"{number}.{process}.npz") for way in WAYS)
        for name in (name for name in theirs.files if not name.endswith(".index")):
            if ours[name].shape != theirs[name].shape or ours[name].dtype != theirs[name].dtype:
                return dataclasses.replace(row, wrong=f"result {name} has another shape or type")
            equal = equal and ours[name].tobytes() == theirs[name].tobytes()
            if in_text:
                part = bounds[int(name)][tuple(slice(*ends) for ends in ours[f"{name}.index"])]
                shares.append(partitioned_bound.share(ours[name], theirs[name], part))
                largest.append(part.max() / max(np.abs(theirs[name]).max(), np.finfo(np.float32).tiny))
    row.difference = "=" if equal else f"{max(shares):.2g}"
    row.bound = f"{max(largest):.0e}" if max(largest) else "0"
    if not equal and not in_text:
        row.wrong = row.wrong or "not equal bit for bit, although nothing was summed"
    elif max(shares) > 1:
        row.wrong = row.wrong or f"differs by {max(shares):.2g} times the bound"
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = programs()
    parser.add_argument("--processes", type=int, nargs="+", default=[2, 4], choices=(2, 4))
    parser.add_argument(
        "--programs", nargs="+", default=list(known), choices=known, metavar="NAME", help="run only these programs"
    )
    parser.add_argument("--aggregator", default="embedded")
    options = parser.parse_args()
    names = options.programs
    jax.config.update("jax_num_cpu_devices", max(options.processes))
    jax.config.update("jax_enable_x64", True)

    console = Console(width=None if sys.stdout.isatty() else 150)
    rows: dict[tuple[str, int], Row] = {}
    failed: list[str] = []
    with tempfile.TemporaryDirectory() as root, Progress(console=console) as progress:
        for n in options.processes:
            folders = {way: Path(root, f"{way}-{n}") for way in WAYS}
            for way, folder in folders.items():
                folder.mkdir()
                code, output = job(way, n, names, options.aggregator, folder, progress)
                if code:
                    failed.append(f"{way}, {n} processes: ended with {code}\n{output}")
            for number, name in enumerate(progress.track(names, description=f"{n} processes, bounds")):
                rows[name, n] = compare(known[name], number, n, folders)

    table = Table(title=f"JAX {jax.__version__}, {options.aggregator}", title_justify="left")
    table.add_column("program")
    columns = [field.name for field in dataclasses.fields(Row) if field.name != "wrong"]
    for n, column in itertools.product(options.processes, columns):
        table.add_column(f"n = {n}\n{column}" if column == columns[0] else f"\n{column}", justify="right")
    for name in names:
        chosen = [rows[name, n] for n in options.processes]
        cells = [getattr(row, column) for row in chosen for column in columns]
        table.add_row(name, *cells, style="red" if any(row.wrong for row in chosen) else "")
    console.print(table)
    wrong = [f"{name}, n = {n}: {row.wrong}" for (name, n), row in rows.items() if row.wrong]
    said = f"{len(rows)} runs of {len(names)} programs, {len(wrong)} wrong, {len(failed)} jobs failed"
    console.print(*failed, *wrong, said, sep="\n", markup=False, soft_wrap=True)
    return int(bool(wrong or failed))


if __name__ == "__main__":
    sys.exit(main())
