#!/usr/bin/env python3
"""Kills members of an elastic team one after the other, and checks that the others go on in time, to the right bits.

    tests/campaigns/elastic_kills.py                                     # 100 times one of four
    tests/campaigns/elastic_kills.py --kills 5 --aggregator direct       # quick
    tests/campaigns/elastic_kills.py --kills 10 --cold                   # members import JAX anew

Each time, one of the members, any of them, gets SIGKILL at a random moment. Measured is how long it takes until all
others have finished a step without it. Then a replacement is started, forked from a process that has imported JAX or,
with --cold, a new Python. Measured is how long it takes until it has finished a step with all others, and how much of
that is left once the process asks to join. Now and then a replacement is killed too, while it starts or joins; those
are not counted.

Every member tells a checksum of its parameters after each step. All members must tell the same for a step, and so
must a replay: one process that computes all steps again from the number of members in each, and sums by the readable
reference of the arithmetic. The exit code is 1 if one did not, if a member ended otherwise, or if something took too
long.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import math
import multiprocessing
import os
import pickle
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np

from jaxina.cli.children import die_with

ON, IN = 5.0, 10.0  # seconds that are promised: until the others go on, until a replacement takes part
PATIENCE = 120.0  # seconds after which a step that does not come never will
PARTS, ROWS, WIDTH = 12, 8, 128


# ---- the training


def make_programs(all_reduce: Any) -> tuple[Any, Any, Any]:
    """Returns the first state, a function that computes a member's share of a step, and one that ends the step."""
    import jax
    import jax.numpy as jnp

    def loss_of(params: Any, inputs: Any, labels: Any) -> Any:
        hidden = jnp.tanh(inputs @ params["in"])
        return jnp.sum((hidden @ params["out"] - labels) ** 2)

    @jax.jit
    def add(own: Any, params: Any, inputs: Any, labels: Any) -> Any:
        return jax.tree.map(jnp.add, own, jax.grad(loss_of)(params, inputs, labels))

    @jax.jit
    def update(state: Any, own: Any) -> Any:
        speed = jax.tree.map(lambda v, g: 0.9 * v + g / (PARTS * ROWS), state["speed"], all_reduce(own))
        return {"params": jax.tree.map(lambda p, v: p - 0.01 * v, state["params"], speed), "speed": speed}

    def share(state: Any, step: int, rank: int, size: int) -> Any:
        own = jax.tree.map(jnp.zeros_like, state["params"])
        for part in range(rank, PARTS, size):
            draw = np.random.default_rng((step, part))
            inputs = draw.normal(size=(ROWS, WIDTH)).astype(np.float32)
            own = add(own, state["params"], inputs, np.sin(inputs[:, :10]))
        return own

    draw = np.random.default_rng(1)
    params = {"in": draw.normal(size=(WIDTH, WIDTH)) / 12, "out": draw.normal(size=(WIDTH, 10)) / 12}
    params = {name: value.astype(np.float32) for name, value in params.items()}
    return {"params": params, "speed": {name: np.zeros_like(value) for name, value in params.items()}}, share, update


def checksum(state: Any) -> int:
    total = 0
    for name in ("in", "out"):
        total = zlib.crc32(np.asarray(state["params"][name]).tobytes(), total)
    return total


def work(options: argparse.Namespace, keeper: str, told: Connection) -> None:
    """A member, until the step that the file `stop` names. It tells what it does."""
    import jax

    import jaxina.elastic

    # A replacement need not compile what the others have compiled.
    jax.config.update("jax_compilation_cache_dir", str(options.folder / "programs"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)

    state, share, update = make_programs(jaxina.elastic.all_reduce)

    def step(state: Any, turn: jaxina.elastic.Turn) -> tuple[Any, None]:
        time.sleep(options.pause)
        return update(state, share(state, turn.step, turn.rank, turn.size)), None

    stop = options.folder / "stop"
    told.send({"asks": time.time()})
    for done in jaxina.elastic.steps(step, state, aggregator=options.aggregator, keeper=keeper):
        told.send({"step": done.step, "size": done.size, "sum": checksum(done.state), "time": time.time()})
        if stop.exists() and done.step >= int(stop.read_text()):
            break


def replay(sizes: list[int], sums: list[int]) -> int:
    """Computes all steps again. Returns the first step whose checksum differs; -1: none does."""
    import jax

    from jaxina.numerics import all_reduce_reference

    def total(*shares: Any) -> np.ndarray:
        arrays = [np.asarray(share) for share in shares]
        return all_reduce_reference(arrays).reshape(arrays[0].shape) if len(arrays) > 1 else arrays[0]

    state, share, update = make_programs(lambda own: own)
    for step, size in enumerate(sizes):
        state = update(state, jax.tree.map(total, *(share(state, step, rank, size) for rank in range(size))))
        if checksum(state) != sums[step]:
            return step
    return -1


# ---- the campaign


class Member:
    """A member in a process of its own, and what it has told."""

    def __init__(self, name: str, options: argparse.Namespace, keeper: str, history: History):
        self.name = name
        self.began = time.time()
        self.asked = 0.0
        self.sizes: dict[int, tuple[int, float]] = {}  # by step: how many computed it, and when this one had it
        context = multiprocessing.get_context("spawn" if options.cold else "forkserver")
        if not options.cold:
            context.set_forkserver_preload(["jax", "jaxina.elastic"])
        self._told, tells = context.Pipe(duplex=False)
        self.process: BaseProcess = context.Process(target=work, args=(options, keeper, tells), daemon=True)
        self.process.start()
        tells.close()  # so that the end of the process ends the connection
        self._history = history
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        with contextlib.suppress(EOFError, OSError, pickle.UnpicklingError):  # cut off by its death
            while True:
                line = self._told.recv()
                with self._history.changed:
                    if "asks" in line:
                        self.asked = line["asks"]
                    else:
                        self.sizes[line["step"]] = line["size"], line["time"]
                        self._history.note(line)
                    self._history.changed.notify_all()
        with self._history.changed:
            self._history.changed.notify_all()


class History:
    """What all members have printed of each step."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.steps: dict[int, tuple[int, int]] = {}  # by step: size and checksum
        self.wrong: list[str] = []

    def note(self, line: dict[str, Any]) -> None:
        said = line["size"], line["sum"]
        if self.steps.setdefault(line["step"], said) != said:
            self.wrong.append(f"step {line['step']}: {said} of one member, {self.steps[line['step']]} of another")

    def when_all(self, members: list[Member], size: int, after: float) -> float:
        """Waits until each member has had a step that `size` members computed, after a time. Returns when the last had.

        Raises:
          SystemExit: a member ended, or it took too long.
        """

        def first(member: Member) -> float | None:
            return min((when for of, when in member.sizes.values() if of == size and when >= after), default=None)

        deadline = time.time() + PATIENCE
        with self.changed:
            while None in (found := [first(member) for member in members]):
                gone = [member.name for member in members if member.process.exitcode is not None]
                if gone or time.time() > deadline:
                    raise SystemExit(f"{' and '.join(gone)} ended" if gone else f"no step of {size} members comes")
                self.changed.wait(1.0)
        return max(when for when in found if when is not None)


@dataclasses.dataclass
class Times:
    on: list[float] = dataclasses.field(default_factory=list)
    joined: list[float] = dataclasses.field(default_factory=list)
    asked: list[float] = dataclasses.field(default_factory=list)


def kill(member: Member) -> float:
    when = time.time()
    member.process.kill()
    member.process.join()
    return when


def run(options: argparse.Namespace, keeper: str, history: History) -> Times:
    """Kills and replaces members, and ends the team."""
    rng, times, number, hasty = random.Random(options.seed), Times(), 0, 0

    def start() -> Member:
        nonlocal number
        number += 1
        return Member(f"member-{number}", options, keeper, history)

    members = [start() for _ in range(options.members)]
    history.when_all(members, options.members, 0.0)
    ends = time.time() + 60 * options.minutes
    for turn in range(options.kills):
        if time.time() > ends:
            break
        time.sleep(rng.uniform(0, 0.3))
        victim = members.pop(rng.randrange(len(members)))
        killed = kill(victim)
        times.on.append(history.when_all(members, options.members - 1, killed) - killed)
        while rng.random() < options.hasty:
            hasty += 1
            replacement = start()
            time.sleep(rng.uniform(0, 4))
            kill(replacement)
        new = start()
        members.append(new)
        joined = history.when_all(members, options.members, new.began)
        times.joined.append(joined - new.began)
        times.asked.append(joined - new.asked)
        if (turn + 1) % 10 == 0:
            print(f"{turn + 1} of {options.kills} killed, at step {max(history.steps)}", file=sys.stderr, flush=True)
    print(f"{len(times.on)} members killed, and {hasty} replacements while they started or joined")
    (options.folder / "stop").write_text(str(max(history.steps) + 50))
    for member in members:
        member.process.join(PATIENCE)
        if member.process.exitcode != 0:
            history.wrong.append(f"{member.name} ended with {member.process.exitcode}")
        member.reader.join(PATIENCE)
    return times


def show(what: str, seconds: list[float], promised: float) -> int:
    """Prints how long something took. Returns how often it took too long."""
    within = sum(one <= promised for one in seconds)
    print(
        f"{what}: median {statistics.median(seconds):.2f} s, at most {max(seconds):.2f} s, "
        f"{within} of {len(seconds)} within {promised:g} s"
    )
    return len(seconds) - within


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=math.inf, help="end earlier, after so many")
    parser.add_argument("--members", type=int, default=4)
    parser.add_argument("--aggregator", choices=("embedded", "direct"), default="embedded")
    parser.add_argument("--pause", type=float, default=0.02, help="seconds that each step waits")
    parser.add_argument("--hasty", type=float, default=0.1, help="how often a replacement is killed too")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cold", action="store_true", help="start members as new Python processes")
    options = parser.parse_args()
    os.environ["JAX_PLATFORMS"] = "cpu"
    history = History()
    with tempfile.TemporaryDirectory() as temporary:
        options.folder = Path(temporary)
        command = [sys.executable, "-m", "jaxina.cli", "keeper", "-n", str(options.members), "--quiet"]
        ends_too = functools.partial(die_with, os.getpid())
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=ends_too) as keeper:
            assert keeper.stdout is not None
            address = keeper.stdout.readline().removeprefix("JAXINA_KEEPER=").split(": ")[0]
            try:
                times = run(options, address, history)
                code = keeper.wait(PATIENCE)
            except BaseException:
                keeper.kill()
                raise
    late = show("until all others have finished a step without it", times.on, ON)
    late += show("from a replacement's start to its first step", times.joined, IN)
    show("of that, from when it asked to join", times.asked, IN)
    steps = [history.steps[step] for step in range(len(history.steps))]
    wrong = [*history.wrong, *([f"the keeper ended with {code}"] if code else [])]
    if (differs := replay([size for size, _ in steps], [total for _, total in steps])) >= 0:
        wrong.append(f"the replay differs from step {differs} on")
    counts = {size: sum(of == size for of, _ in steps) for size in sorted({size for size, _ in steps})}
    described = ", ".join(f"{count} with {size}" for size, count in counts.items())
    same = "the" if not wrong else "NOT the"
    print(f"{len(steps)} steps ({described} members): {same} same bits in all members and in the replay")
    print("\n".join(wrong[:20]), file=sys.stderr)
    sys.exit(1 if wrong or late else 0)


if __name__ == "__main__":
    main()
