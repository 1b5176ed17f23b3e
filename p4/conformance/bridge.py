"""The P4 program as the switch of real workers on this host, in the interpreter or in the chip's model.

    python -m conformance.bridge --interpret SIZE -- COMMAND ...                          # in p4/
    python -m conformance.bridge --model HARNESS --compiled FOLDER -- COMMAND ...

This starts the project's controller behind its control service, and runs the command with the variables by which
`jaxina run` finds the switch. Every datagram of a worker becomes a frame that goes into the chip, and every frame that
leaves the chip becomes a datagram. It is slow: a packet takes milliseconds. The exit code is that of the command.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from interpreter.controller_tables import ChipTables
from interpreter.program import Program

from conformance.devices.compiled import Compiled
from conformance.devices.harness import HarnessError
from conformance.devices.interpreter import TablesOfAChip, description, text_of
from conformance.devices.model_tables import ModelTables
from conformance.generate import WORDS
from conformance.wire import Wire
from jaxina.control.server import ControlServer
from jaxina.controller.chip import SIZES
from jaxina.controller.data_plane import TofinoPlane

_HOST = "127.0.0.1"


class Bridge:
    """The chip's controller behind its control service, and the wire to the workers.

    Attributes:
      address: HOST:PORT of the control service.
      wire: carries the workers' packets.
    """

    def __init__(self, size: str, tables: TablesOfAChip):
        self._plane = TofinoPlane(tables, description(size, _HOST))
        self._server = ControlServer(self._plane, f"{_HOST}:0")
        self._plane.ended = self._server.end_job
        self.address = self._server.address
        self.wire = Wire(tables, _HOST)

    def close(self) -> None:
        self._server.stop()
        self._plane.stop()
        self.wire.close()


def variables(size: str, address: str) -> dict[str, str]:
    """Returns the variables with which `jaxina run` uses the switch: its address, and chunks that fit its packets."""
    shape = {"JAXINA_BLOCK_SIZE": str(WORDS[size]), "JAXINA_BLOCKS_PER_CHUNK": "1"}
    return {"JAXINA_AGGREGATOR": "udp", "JAXINA_SWITCH": address, **shape}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    device = parser.add_mutually_exclusive_group(required=True)
    device.add_argument("--interpret", metavar="SIZE", choices=tuple(WORDS), help="p4/tofino in an interpreter")
    device.add_argument("--model", metavar="HARNESS", type=Path, help="the compiled program in the chip's model")
    parser.add_argument("--compiled", metavar="FOLDER", type=Path, help="with --model: named after the program's size")
    parser.add_argument("command", nargs="+", metavar="COMMAND", help="such as: jaxina run -n 2 train.py")
    options = parser.parse_args()
    tables: TablesOfAChip
    if options.model:
        if options.compiled is None or (size := options.compiled.resolve().name) not in WORDS:
            parser.error(f"--compiled must name a folder {', '.join(WORDS)}")
        tables = ModelTables(options.model.resolve(), Compiled(options.compiled.resolve()), SIZES[size])
    else:
        size = options.interpret
        tables = ChipTables(Program(text_of(size)), SIZES[size].pool_pipe)
    bridge = Bridge(size, tables)
    command = subprocess.Popen(options.command, env={**os.environ, **variables(size, bridge.address)})
    refusal = ""
    try:
        while command.poll() is None:
            try:
                bridge.wire.step()
            except HarnessError as error:
                refusal = refusal or str(error)  # packets after it are lost, as in a switch that is gone
    finally:
        command.kill()
        bridge.close()
    print(f"bridge: {bridge.wire.packets} packets{f'; then {refusal}' if refusal else ''}")
    return command.wait()


if __name__ == "__main__":
    sys.exit(main())
