#!/usr/bin/env python3
"""Stalls one process of a job before a collective, and checks that the watchdog names it in time, and nobody else.

    tests/campaigns/named_hangs.py                                              # 100 hangs, 1,000 delays, each way
    tests/campaigns/named_hangs.py --hangs 2 --delays 10 --late-after 1         # quick

It is the case of jax#38503: a process stays alive, but does not enter an all-reduce that all others wait in. The ways
are sums that jaxina carries, XLA's own that jaxina takes, and XLA's own with gloo. A hang is named if a message names
the stalled process, the collective, and the function in which the process stalls, at most 10 % after the time after
which it is late. A delay is shorter than that time, and must not lead to a message. On a busy machine a delay may take
longer than it was meant to; then it is late, and is not counted. The exit code is 1 if anything else was seen.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import os
import queue
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

WAYS = ("carried", "xla", "gloo")
STALLS = ("sleeps", "computes", "waits_for_a_lock")
LONGEST_DELAY = 0.75  # as a share of the time after which a collective is late
ALLOWED = 1.1
TOO_LATE = "named only after"
MESSAGE_LINES = 7  # with a stack of four frames
LATE = re.compile(r"\[(\d+)\] jaxina: ERROR: rank (\d+) is late")
ENTERS = re.compile(r"\[(\d+)\] enters (\d+) ([\d.]+)")


@dataclasses.dataclass(frozen=True)
class Step:
    """One sum. `rank` comes late: by `seconds`, or, if `stall` names a way to stall, when it is told to go on."""

    rank: int
    seconds: float = 0.0
    stall: str = ""


def plan_of(rng: random.Random, hangs: int, delays: int, late_after: float, processes: int) -> list[Step]:
    steps = [Step(rng.randrange(processes), stall=rng.choice(STALLS)) for _ in range(hangs)]
    steps += [Step(rng.randrange(processes), rng.uniform(0, LONGEST_DELAY * late_after)) for _ in range(delays)]
    rng.shuffle(steps)
    return [Step(0), *steps]  # the first one compiles


# ---- a process of the job


def sleeps(go: Path, deadline: float) -> None:
    while not go.exists() and time.monotonic() < deadline:
        time.sleep(0.02)


def computes(go: Path, deadline: float) -> None:
    while not go.exists() and time.monotonic() < deadline:
        sum(range(1000))


def waits_for_a_lock(go: Path, deadline: float) -> None:
    lock = threading.Lock()
    lock.acquire()
    while not go.exists() and time.monotonic() < deadline:
        lock.acquire(timeout=0.02)


def work(way: str, folder: Path, late_after: float) -> None:
    import jax
    import jax.numpy as jnp
    from jax.sharding import Mesh, NamedSharding
    from jax.sharding import PartitionSpec as P

    import jaxina

    catch_all = False if way == "gloo" else None
    with jaxina.init(late_after=late_after, timeout=600, catch_all=catch_all), jaxina.collectives(way == "carried"):
        mesh = Mesh(jax.devices(), ("w",))
        total = jax.jit(jax.shard_map(lambda x: jax.lax.psum(x, "w"), mesh=mesh, in_specs=P("w"), out_specs=P()))
        ones = jax.make_array_from_callback(
            (jax.device_count(), 1024), NamedSharding(mesh, P("w")), lambda _: jnp.ones((1, 1024))
        )
        for number, step in enumerate(Step(**one) for one in json.loads((folder / "plan.json").read_text())):
            if step.rank == jax.process_index():
                if step.stall:
                    globals()[step.stall](folder / f"go{number}", time.monotonic() + 10 + 3 * late_after)
                else:
                    time.sleep(step.seconds)
            print(f"enters {number} {time.time()}", flush=True)
            total(ones).block_until_ready()


# ---- the campaign


@dataclasses.dataclass
class Seen:
    """What was seen of one way's steps."""

    entered: dict[int, dict[int, float]] = dataclasses.field(default_factory=lambda: collections.defaultdict(dict))
    messages: list[tuple[float, int, int, str]] = dataclasses.field(default_factory=list)  # when, step, rank, text


def run(way: str, plan: list[Step], late_after: float, processes: int, folder: Path) -> Seen:
    """Runs the steps, and lets a stalled process go on when a message names one."""
    (folder / "plan.json").write_text(json.dumps([dataclasses.asdict(step) for step in plan]))
    command = [sys.executable, "-m", "jaxina.cli", "run", "-n", str(processes), __file__]
    command += ["--work", way, "--folder", str(folder), "--late-after", str(late_after)]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines: queue.Queue[tuple[float, str] | None] = queue.Queue()

    def read() -> None:
        for line in started.stdout:
            lines.put((time.time(), line.rstrip()))
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    seen = Seen()
    log = (folder / "log.txt").open("w")
    while (got := lines.get()) is not None:
        when, line = got
        print(f"{when:.3f} {line}", file=log)
        if found := ENTERS.match(line):
            seen.entered[int(found[2])][int(found[1])] = float(found[3])
        elif found := LATE.match(line):
            number = max(seen.entered)
            text = [line]
            while len(text) < MESSAGE_LINES and not any(f" in {name}: " in text[-1] for name in STALLS):
                more = lines.get(timeout=60)  # the job's next steps wait for this one
                assert more is not None
                print(f"{more[0]:.3f} {more[1]}", file=log)
                text.append(more[1])
            seen.messages.append((when, number, int(found[2]), "\n".join(text)))
            (folder / f"go{number}").touch()
    log.close()
    if started.wait() != 0:
        raise SystemExit(f"{way}: the job failed; see {folder}/log.txt")
    return seen


def judge(way: str, plan: list[Step], seen: Seen, late_after: float) -> tuple[dict[str, Any], list[str]]:
    """Counts what was right, and says what was not."""
    wrong: list[str] = []
    named, times, late_delays = 0, [], 0
    of_step = collections.defaultdict(list)
    for when, number, rank, text in seen.messages:
        of_step[number].append((when, rank, text))
    for number, step in enumerate(plan[1:], start=1):
        entered = seen.entered[number]
        began, spread = min(entered.values()), max(entered.values()) - min(entered.values())
        messages = of_step.get(number, [])
        if not step.stall:
            late_delays += spread >= late_after
            if messages and spread < late_after:
                wrong.append(f"{way}, step {number}: a delay of {spread:.2f} s led to: {messages[0][2]}")
            continue
        if not messages:
            wrong.append(f"{way}, step {number}: rank {step.rank} was not named")
            continue
        when, rank, text = messages[0]
        times.append(when - began)
        if rank != step.rank or "psum f32[1,1024]" not in text or f" in {step.stall}: " not in text:
            wrong.append(f"{way}, step {number}: for rank {step.rank}, which {step.stall}: {text}")
        elif when - began > ALLOWED * late_after:
            wrong.append(f"{way}, step {number}: {TOO_LATE} {when - began:.2f} s")
        else:
            named += 1
    hangs = sum(bool(step.stall) for step in plan)
    delays = len(plan) - 1 - hangs
    row = {"way": way, "hangs": hangs, "named": named, "delays": delays, "late delays": late_delays}
    row["false alarms"] = sum("a delay of" in one for one in wrong)
    row["longest, s"] = f"{max(times, default=0.0):.2f}"
    return row, wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hangs", type=int, default=100)
    parser.add_argument("--delays", type=int, default=1000)
    parser.add_argument("--late-after", type=float, default=5.0, help="seconds")
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work, options.folder, options.late_after)
        return
    everything = []
    for way in options.ways:
        plan = plan_of(
            random.Random(f"{options.seed} {way}"), options.hangs, options.delays, options.late_after, options.processes
        )
        with tempfile.TemporaryDirectory() as folder:
            row, wrong = judge(
                way, plan, run(way, plan, options.late_after, options.processes, Path(folder)), options.late_after
            )
        print(", ".join(f"{name} {value}" for name, value in row.items()), flush=True)
        everything += wrong
    print("\n".join(everything[:20]), file=sys.stderr)
    os._exit(1 if everything else 0)


if __name__ == "__main__":
    main()
