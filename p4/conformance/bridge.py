"""The P4 program as the switch of real workers on this host, in the interpreter or in the chip's model.

    python -m conformance.bridge --interpret SIZE -- COMMAND ...                          # in p4/
    python -m conformance.bridge --model HARNESS --compiled FOLDER -- COMMAND ...

This starts the project's controller behind its control service, and runs the command with the variables by which
`jaxina run` finds the switch. Every datagram of a worker becomes a frame that goes into the chip, and every frame that
leaves the chip becomes a datagram. It is slow: a packet takes milliseconds. The exit code is that of the command.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path

from interpreter.controller_tables import ChipTables
from interpreter.program import Program

from conformance.devices import frames
from conformance.devices.compiled import Compiled
from conformance.devices.harness import HarnessError
from conformance.devices.interpreter import MAC, PORTS, SHORTEST_FRAME, TablesOfAChip, description, text_of
from conformance.devices.links import Address
from conformance.devices.model_tables import ModelTables
from conformance.generate import WORDS
from jaxina.control.server import ControlServer
from jaxina.controller.chip import SIZES
from jaxina.controller.data_plane import UDP_PORT, TofinoPlane

_HOST = "127.0.0.1"
_POLL = 0.2  # seconds
_BUFFER = 1 << 22  # bytes; workers send faster than the chip takes packets
_MOST_BYTES = 65535  # of a datagram
_FIRST_MAC = 0x024A58010000


class Bridge:
    """Datagrams of this host's workers on one side, the chip's frames on the other.

    Attributes:
      address: HOST:PORT of the control service.
      packets: how many datagrams have gone into the chip.
    """

    def __init__(self, size: str, tables: TablesOfAChip):
        self._tables = tables
        self._plane = TofinoPlane(tables, description(size, _HOST))
        self._server = ControlServer(self._plane, f"{_HOST}:0")
        self._plane.ended = self._server.end_job
        self.address = self._server.address
        self.packets = 0
        # (sender, payload), in order. A repetition that comes before the chip has taken the first one is lost.
        self._waiting: dict[tuple[Address, bytes], None] = {}
        self._stations: dict[Address, tuple[int, int]] = {}  # (MAC address, port) of each sender
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        self._socket.bind((_HOST, UDP_PORT))

    def step(self) -> None:
        """Takes the next datagram into the chip, and sends what leaves it. Returns after a while if none comes.

        Raises:
          HarnessError: if the model cannot go on.
          UndefinedError: if the program's text does not say what happens.
        """
        self._receive()
        if not self._waiting:
            return
        sender, payload = next(iter(self._waiting))
        del self._waiting[sender, payload]
        new = _FIRST_MAC + len(self._stations), PORTS[len(self._stations) % len(PORTS)]
        self.packets += 1
        mac, port = self._stations.setdefault(sender, new)
        frame = frames.Frame(mac.to_bytes(6), sender, MAC, (_HOST, UDP_PORT), payload)
        for left_by, data in self._tables.send(port, frames.to_bytes(frame).ljust(SHORTEST_FRAME, b"\0")):
            sent = frames.from_bytes(data)
            assert sent, f"at port {left_by} comes {data.hex()}"
            station = int.from_bytes(sent.destination_mac), left_by
            assert self._stations[sent.destination] == station, f"a frame for {sent.destination} comes at {station}"
            self._socket.sendto(sent.payload, sent.destination)

    def _receive(self) -> None:
        """Takes all datagrams that have come. Waits for one if none is left from before."""
        self._socket.settimeout(0 if self._waiting else _POLL)
        with contextlib.suppress(TimeoutError, BlockingIOError):
            while True:
                payload, sender = self._socket.recvfrom(_MOST_BYTES)
                self._waiting[sender, payload] = None
                self._socket.settimeout(0)

    def close(self) -> None:
        self._server.stop()
        self._plane.stop()
        self._socket.close()


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
                bridge.step()
            except HarnessError as error:
                refusal = refusal or str(error)  # packets after it are lost, as in a switch that is gone
    finally:
        command.kill()
        bridge.close()
    print(f"bridge: {bridge.packets} packets{f'; then {refusal}' if refusal else ''}")
    return command.wait()


if __name__ == "__main__":
    sys.exit(main())
