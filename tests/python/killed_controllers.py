#!/usr/bin/env python3
"""Kills a Tofino's controller while workers sum, and starts it again beside a chip that keeps its state.

    tests/python/killed_controllers.py --kills 10 --size one-pipe

The chip is the interpreted program in a process of its own (`conformance.chip_process`). The controller is
`jaxina switch --backend tofino`, which reaches the chip through a stand-in for the SDE's client. Each controller is
killed, in every third job before the first sum, and otherwise at a random time after it. With --loss, the chip loses
packets between its passes, and copies for the workers. The workers must end with the
right error in time. Each job must sum exactly, whatever the controllers before have left in the chip. The program
prints a table. The exit code is 1 if that did not hold.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from real_processes.row import HEADER, SWITCH_GONE, Row
from real_processes.trial import Trial, job_settings

from jaxina.controller.chip import SIZES

_P4 = Path(__file__).parents[2] / "p4"
_HOST = "127.51.0.1"  # not that of other tests' chips, because the UDP port is always the same
_ELEMENTS = 1000
_JOIN_TIMEOUT = 15.0  # seconds
_CHIP = f"""
size = "{{size}}"
address = "{_HOST}"
worker_rate = 1
""" + "".join(
    f"[[port]]\nnumber = {port}\n{tag}"
    for port, tag in ((0, ""), (5, "vlan = 100\npriority = 3\n"), (128, ""), (300, "vlan = 0\npriority = 5\n"))
)


@contextlib.contextmanager
def chip(folder: Path, size: str, loss: float) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """Runs a chip that loses a share of its packets. Yields its process, and the arguments with which `jaxina switch`
    drives it."""
    (folder / "chip.toml").write_text(_CHIP.format(size=size))
    path = folder / "tables"
    command = [sys.executable, "-m", "conformance.chip_process", "--interpret", size, "--address", _HOST]
    command += ["--loss", str(loss)]
    process = subprocess.Popen([*command, "--tables", str(path)], cwd=_P4, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None and process.stdout.readline().startswith("tables at")
        yield process, ["--backend", "tofino", "--chip", str(folder / "chip.toml"), "--bfrt", str(path)]
    finally:
        process.kill()
        process.communicate()


class Controller:
    """A controller in a process of its own."""

    def __init__(self, arguments: list[str]):
        read, write = os.pipe()
        command = [sys.executable, "-m", "jaxina.cli", "switch", "--bind", f"{_HOST}:0", *arguments]
        environment = {**os.environ, "PYTHONPATH": str(_P4 / "conformance" / "sde")}
        self.process = subprocess.Popen(
            [*command, "--quiet", "--announce-fd", str(write)], pass_fds=[write], env=environment
        )
        os.close(write)
        with open(read) as announced:
            self.address = announced.readline().strip()
        assert self.address, "the controller did not start"

    def __enter__(self) -> Controller:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()


def kill(row: Row, arguments: list[str], size: str, draw: random.Random, early: bool) -> None:
    """Starts a controller and a job, and kills the controller. Notes in the row what went wrong."""
    row.trials += 1
    shape = {"join_timeout": _JOIN_TIMEOUT, "slots": 4, "block_size": SIZES[size].words, "blocks_per_chunk": 1}
    try:
        with (
            Controller(arguments) as controller,
            Trial(2, job_settings("udp", controller, **shape), elements=_ELEMENTS) as trial,
        ):
            if not early:
                trial.wait_until_summing()
            time.sleep(draw.uniform(0, 0.5))
            since = time.monotonic()
            controller.process.kill()
            # A worker that has heard from the switch may wait for one that could not.
            codes = ("SWITCH_UNREACHABLE", *(("NEVER_JOINED",) if early else ()))
            for rank in range(2):
                row.check(trial, rank, since, codes)
    except RuntimeError as error:
        row.failures.append(str(error))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--size", default="one-pipe", choices=tuple(SIZES))
    parser.add_argument("--loss", type=float, default=0.0, help="share of packets that the chip loses inside")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    summing = Row(f"SIGKILL of the controller, {options.size}", SWITCH_GONE)
    joining = Row("the same, before the first sum", SWITCH_GONE + _JOIN_TIMEOUT)
    draw = random.Random(options.seed)
    with (
        tempfile.TemporaryDirectory(prefix="controllers-") as folder,
        chip(Path(folder), options.size, options.loss) as (process, arguments),
    ):
        for number in range(options.kills):
            early = number % 3 == 2
            kill(joining if early else summing, arguments, options.size, draw, early)
        assert process.poll() is None, "the chip has ended"
    failures = summing.failures + joining.failures
    print(HEADER, summing.text(), joining.text(), *failures, sep="\n")
    return bool(failures or not summing.errors)


if __name__ == "__main__":
    sys.exit(main())
