"""The P4 program as the switch of real workers on this host, in the interpreter or in the chip's model.

    python -m conformance.bridge --interpret SIZE -- COMMAND ...                          # in p4/
    python -m conformance.bridge --model HARNESS --compiled FOLDER -- COMMAND ...

This starts the project's controller behind its control service, and runs the command with the variables by which
`jaxina run` finds the switch. Every datagram of a worker becomes a frame that goes into the chip, and every frame that
leaves the chip becomes a datagram. It is slow: a packet takes milliseconds. In the model it takes more, so the model's
time passes slowly, and entries of atp.p4 do not expire while their packets wait. The exit code is that of the command.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from interpreter.controller_tables import ChipTables
from interpreter.program import Program

from conformance.devices.atp import WARM_UP
from conformance.devices.compiled import Compiled
from conformance.devices.harness import HarnessError
from conformance.devices.interpreter import TablesOfAChip, description, size_of, text_of
from conformance.devices.model_tables import ModelTables
from conformance.generate import ATP, WORDS
from conformance.wire import Wire, host_at
from jaxina.control.server import ControlServer
from jaxina.controller.atp_plane import AtpPlane
from jaxina.controller.chip import Size
from jaxina.controller.data_plane import TofinoPlane

_HOST = "127.0.0.1"
_MODEL_SECOND = 50  # seconds in which a second passes in the model


class Bridge:
    """The chip's controller behind its control service, and the wire to the workers.

    Attributes:
      address: HOST:PORT of the control service.
      wire: carries the workers' packets.
    """

    def __init__(self, size: str, tables: TablesOfAChip):
        host = host_at(_HOST)
        chip = description(size, _HOST)
        chip = dataclasses.replace(chip, hosts=(*chip.hosts, host))
        self._plane = (AtpPlane if size == ATP else TofinoPlane)(tables, chip)
        self._server = ControlServer(self._plane, f"{_HOST}:0")
        self._plane.ended = self._server.end_job
        self.address = self._server.address
        self.wire = Wire(tables, host)

    @property
    def sums(self) -> int:
        """How many sums of a program that combines have gone to servers."""
        return self.wire.sums

    def close(self) -> None:
        self._server.stop()
        self._plane.stop()
        self.wire.close()


class Waiting(Protocol):
    """What has a time of its own."""

    def wait(self, milliseconds: int) -> None: ...


class ModelTime:
    """Lets time pass in the model. Entries of atp.p4 are free when this has begun."""

    def __init__(self, model: Waiting, clock: Callable[[], float] = time.monotonic):
        self._model, self._clock = model, clock
        self._began = clock()
        self._passed = 0  # milliseconds in the model
        model.wait(WARM_UP)

    def go_on(self) -> None:
        due = int((self._clock() - self._began) * 1000 / _MODEL_SECOND)
        if due > self._passed:
            self._model.wait(due - self._passed)
            self._passed = due


def variables(size: str, address: str) -> dict[str, str]:
    """Returns the variables with which `jaxina run` uses the switch: its address, and chunks that fit its packets."""
    words, aggregator = (WORDS["one-pipe"], "atp") if size == ATP else (WORDS[size], "udp")
    shape = {"JAXINA_BLOCK_SIZE": str(words), "JAXINA_BLOCKS_PER_CHUNK": "1"}
    return {"JAXINA_AGGREGATOR": aggregator, "JAXINA_SWITCH": address, **shape}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    device = parser.add_mutually_exclusive_group(required=True)
    device.add_argument("--interpret", metavar="SIZE", choices=(*WORDS, ATP), help="p4/tofino in an interpreter")
    device.add_argument("--model", metavar="HARNESS", type=Path, help="the compiled program in the chip's model")
    parser.add_argument("--compiled", metavar="FOLDER", type=Path, help="with --model: named after the program's size")
    parser.add_argument("command", nargs="+", metavar="COMMAND", help="such as: jaxina run -n 2 train.py")
    options = parser.parse_args()
    tables: TablesOfAChip
    model_time = None
    if options.model:
        if options.compiled is None or (size := options.compiled.resolve().name) not in (*WORDS, ATP):
            parser.error(f"--compiled must name a folder {', '.join((*WORDS, ATP))}")
        tables = model = ModelTables(options.model.resolve(), Compiled(options.compiled.resolve()), size_of(size))
        model_time = ModelTime(model)
    else:
        size = options.interpret
        tables = interpreted = ChipTables(Program(text_of(size)), Size.pool_pipe)
        interpreted.chip.now = time.monotonic_ns
    bridge = Bridge(size, tables)
    command = subprocess.Popen(options.command, env={**os.environ, **variables(size, bridge.address)})
    refusal = ""
    try:
        while command.poll() is None:
            try:
                if model_time:
                    model_time.go_on()
                bridge.wire.step()
            except HarnessError as error:
                refusal = refusal or str(error)  # packets after it are lost, as in a switch that is gone
    finally:
        command.kill()
        bridge.close()
    sums = f", {bridge.sums} sums" if size == ATP else ""
    print(f"bridge: {bridge.wire.packets} packets{sums}{f'; then {refusal}' if refusal else ''}")
    return command.wait()


if __name__ == "__main__":
    sys.exit(main())
