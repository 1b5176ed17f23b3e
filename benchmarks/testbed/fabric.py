#!/usr/bin/env python3
"""Measures time to an accuracy over links that are unequal and change: MLfabric beside psum, on the testbed.

    benchmarks/testbed/fabric.py --workers 6 --rate 10 --schedule N2 --seconds 60

It needs root, because it makes a testbed (`jaxina testbed`), and removes it afterwards. The workers' links change while
all of them train (`jaxina testbed shape`). The ways:

* psum: the mean of the workers' gradients after each step, summed by the workers (`--aggregator direct`).
* psum, H local: the mean of their models after each H steps (synchronous local SGD).
* fabric, H local: `examples/unequal_links/train.py` with H steps for each update. The server is on a host whose link
  has a worker's full rate and does not change.

Seconds count from the first mean, or the first commit. The accuracy is computed afterwards, from the models that rank 0
has kept, and from replays of the server's log.

`--json FILE` also writes what a simulation of the same runs needs (`python -m experiments.fabric.forecast FILE`): the
accuracies over time, what the links had when, how long each update took to compute, and how long a psum of the model
takes while one worker's link out and another's link in have each of the schedule's rates.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from fabric_worker import EXAMPLE, Task, load_digits
from rich.console import Console
from rich.table import Table

from jaxina import testbed
from jaxina.fabric.commit_log import replay
from jaxina.testbed.schedule import SCHEDULES, SHARES

Curve = list[tuple[float, float]]  # seconds and accuracy
PORT = 51100


@dataclasses.dataclass
class Run:
    """What a way of training did.

    Attributes:
      curve: seconds since the beginning, and accuracies.
      began: in seconds of `time.time`.
      seconds: how long it ran.
      updates: how many the model got.
      computing: seconds that each update took to compute, by rank.
    """

    curve: Curve
    began: float
    seconds: float
    updates: int
    computing: list[list[float]]


def computing(files: Iterable[Path]) -> list[list[float]]:
    """The seconds that workers have written, one a line."""
    return [[float(line) for line in file.read_text().split()] for file in files]


@contextlib.contextmanager
def running(command: list[object], log: Path) -> Iterator[subprocess.Popen]:
    """Runs a command beside. Ends it by SIGTERM, or if need be by SIGKILL."""
    with log.open("w") as out:
        process = subprocess.Popen([str(part) for part in command], stdout=out, stderr=out)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def fabric(bed: testbed.Testbed, options: argparse.Namespace, task: Task, local: int, folder: Path) -> Run:
    """Trains with MLfabric."""
    log = folder / f"commits-{local}"
    np.save(folder / "first.npy", task.first)
    jaxina = [sys.executable, "-m", "jaxina.cli", "fabric"]
    scheduler = f"{bed.switch_host}:{PORT}"
    inside_switch, inside_server = bed.inside(bed.switch_namespace), bed.inside(bed.server_namespace(0))
    daemon = ["scheduler", "--bind", scheduler, "-n", options.workers, "--rate", options.rate]
    daemon += ["--rates", testbed.RATES, "--delay-bound", options.delay_bound]
    server = ["server", "--scheduler", scheduler, "--bind", f"{bed.server_host(0)}:0"]
    server += ["--model", folder / "first.npy", "--log", log]
    samples: list[tuple[float, int]] = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(running([*inside_switch, *jaxina, *daemon], folder / "scheduler.log"))
        stack.enter_context(running([*inside_server, *jaxina, *server], folder / "server.log"))
        for rank in range(options.workers):
            worker = [*bed.inside(bed.worker_namespace(rank)), sys.executable, EXAMPLE]
            worker += ["--rank", rank, "--scheduler", scheduler, "--bind", f"{bed.worker_host(rank)}:0"]
            worker += ["--workers", options.workers, "--updates", 10**9, "--local-steps", local, "--seed", options.seed]
            worker += ["--batch-size", options.batch_size, "--learning-rate", options.learning_rate]
            worker += ["--timings", folder / f"computing-{rank}"]
            stack.enter_context(running(worker, folder / f"worker-{rank}.log"))
        first, begin, began, give_up = None, None, 0.0, time.monotonic() + 120
        while begin is None or time.monotonic() - begin < options.seconds:
            size = log.stat().st_size if log.exists() else 0
            if first is None and size:
                first = size  # the model before the first commit
            if begin is None and first is not None and size > first:
                begin, began = time.monotonic(), time.time()
            if begin is not None:
                samples.append((time.monotonic() - begin, size))
            elif time.monotonic() > give_up:
                raise SystemExit((folder / "server.log").read_text() + (folder / "worker-0.log").read_text())
            time.sleep(0.25)
        asked = subprocess.run(
            [*inside_switch, *jaxina, "status", "--scheduler", scheduler], capture_output=True, text=True
        )
        print(asked.stdout)
    _, test = load_digits()
    whole, curve, updates = log.read_bytes(), [], 0
    part = folder / "part"
    for seconds, size in samples:
        part.write_bytes(whole[:size])
        model = replay(part)
        updates = model.version
        curve.append((seconds, task.accuracy(model.weights, test)))
    times = computing(folder / f"computing-{rank}" for rank in range(options.workers))
    return Run(curve, began, curve[-1][0], updates, times)


def psum(options: argparse.Namespace, task: Task, local: int, folder: Path) -> Run:
    """Trains with psum."""
    out = folder / f"psum-{local}.npz"
    command = [sys.executable, "-m", "jaxina.cli", "testbed", "run", "run", "-n", options.workers]
    command += ["--aggregator", "direct", Path(__file__).with_name("fabric_worker.py"), "--local-steps", local]
    command += ["--batch-size", options.batch_size, "--learning-rate", options.learning_rate]
    command += ["--seconds", options.seconds, "--seed", options.seed, "--out", out]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stdout + done.stderr)
    _, test = load_digits()
    with np.load(out) as record:
        curve = [(float(t), task.accuracy(w, test)) for t, w in zip(record["times"], record["weights"], strict=True)]
        times = computing(out.with_suffix(f".{r}") for r in range(options.workers))
        updates = options.workers * int(record["rounds"])
        return Run(curve, float(record["began"]), float(record["seconds"]), updates, times)


def sum_seconds(bed: testbed.Testbed, options: argparse.Namespace, task: Task, folder: Path) -> list[list[float]]:
    """The median seconds of a psum of the model, by the rate of the slowest links, in bytes per second.

    One worker's link out and another's link in are slow.
    """
    file, size, full = folder / "bench.json", 4 * task.first.size, 1000 * options.rate
    command = [sys.executable, "-m", "jaxina.cli", "testbed", "run", "bench", "-n", options.workers]
    command += ["-b", size, "-e", size, "-i", 10, "-w", 2, "--aggregator", "direct", "--json", file]
    found = []
    for share in (share for share, likely in zip(SHARES, SCHEDULES[options.schedule], strict=True) if likely):
        slow = round(share * full)
        testbed.reshape(bed, {0: (slow, full), 1: (full, slow)})
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(done.stdout + done.stderr)
        (record,) = json.loads(file.read_text())["records"]
        found.append([slow * 125, record["results"]["jaxina"]["median_ms"] / 1e3])
    testbed.reshape(bed, {0: (full, full), 1: (full, full)})
    return found


def reached(curve: Curve, target: float) -> str:
    """The first second with the accuracy."""
    return next((f"{t:.1f} s" for t, accuracy in curve if accuracy >= target), "never")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=6)
    parser.add_argument("--rate", type=int, default=10, help="megabits per second of a full link")
    parser.add_argument("--schedule", default="N2")
    parser.add_argument("--every", type=float, default=5.0, help="seconds from one change of the links to the next")
    parser.add_argument("--local-steps", type=int, default=8, metavar="H")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--delay-bound", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each way")
    parser.add_argument("--targets", default="0.8,0.85,0.88,0.9")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ways", default="0,1,2", help="which of the three ways, separated by commas")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what a simulation of the same needs")
    options = parser.parse_args()
    if os.geteuid() != 0:
        raise SystemExit("a testbed needs root")
    task = Task(options.seed)
    targets = [float(target) for target in options.targets.split(",")]
    h = options.local_steps
    ways = {
        "psum": lambda bed, folder: psum(options, task, 1, folder),
        f"psum, {h} local": lambda bed, folder: psum(options, task, h, folder),
        f"fabric, {h} local": lambda bed, folder: fabric(bed, options, task, h, folder),
    }
    title = f"{options.workers} workers, {options.rate} Mbit/s, {options.schedule}: seconds to an accuracy"
    ways = {way: ways[way] for i, way in enumerate(list(ways)) if str(i) in options.ways.split(",")}
    recorded = {}
    table = Table("way", *(f"{100 * target:g} %" for target in targets), "at the end", "load", title=title)
    for way, train in ways.items():
        bed = testbed.up(testbed.Size(options.workers, servers=1), testbed.Link(options.rate))
        try:
            with tempfile.TemporaryDirectory() as name:
                shape = [sys.executable, "-m", "jaxina.cli", "testbed", "shape", "--schedule", options.schedule]
                shape += ["--seed", options.seed, "--every", options.every]
                load = os.getloadavg()[0]
                sums = sum_seconds(bed, options, task, Path(name)) if way.startswith("psum") else []
                with running(shape, Path(name) / "shape.log"):
                    run = train(bed, Path(name))
                    rates = testbed.RATES.read_text()
        finally:
            testbed.down()
        curve = run.curve
        table.add_row(way, *(reached(curve, t) for t in targets), f"{100 * curve[-1][1]:.1f} %", f"{load:.1f}")
        lines = [json.loads(line) for line in rates.splitlines()]
        recorded[way] = dataclasses.asdict(run) | {"rates": lines, "sum_seconds": sums}
    Console(width=120).print(table)
    if options.json is not None:
        shown = {name: value for name, value in vars(options).items() if name != "json"}
        options.json.write_text(json.dumps({"options": shown, "ways": recorded}))


if __name__ == "__main__":
    main()
