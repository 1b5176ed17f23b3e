"""The interpreted P4 program as a switch whose ports are network interfaces of this host. It needs CAP_NET_RAW.

    python -m conformance.behind_interfaces --interpret SIZE --interfaces NAME,... [--bind HOST:PORT]     # in p4/

Its port n (0, 5, 128 and 300, in turn) is the n-th interface. The controller runs in the same process, with its control
service at HOST:PORT. The first line of output says where that is. Hosts are those of the vectors' endpoints: host n has
the address 198.18.64.n and the MAC address 02:4a:58:00:00:00 + n - 1, at port n - 1 modulo the number of ports.
"""

from __future__ import annotations

import argparse
import dataclasses
import selectors
import sys

from interpreter.controller_tables import ChipTables
from interpreter.program import Program

from conformance.devices.interpreter import PORTS, description, text_of
from conformance.generate import WORDS
from jaxina.control.server import ControlServer
from jaxina.controller.chip import SIZES
from jaxina.controller.cpu_port import PacketSocket
from jaxina.controller.data_plane import TofinoPlane

_MAC = 0x024A58FFFFFF  # of the switch, for workers; any would do that no host has
_POLL = 0.1  # seconds; there is a frame


class Interfaces:
    """Interfaces at the chip's ports."""

    def __init__(self, tables: ChipTables, names: list[str]):
        self._tables = tables
        self._ports = {port: PacketSocket(name, _MAC) for port, name in zip(PORTS, names, strict=False)}
        self._selector = selectors.DefaultSelector()
        for port, frames in self._ports.items():
            self._selector.register(frames, selectors.EVENT_READ, (port, frames))

    def step(self) -> None:
        """Waits for frames, and takes those that have come through the chip.

        Raises:
          UndefinedError: if the program's text does not say what happens.
          SystemCallError: if an interface is gone.
        """
        for key, _ in self._selector.select():
            port, frames = key.data
            frame = frames.receive(_POLL)
            if frame is None:
                continue
            for to, sent in self._tables.send(port, frame):
                if to in self._ports:
                    self._ports[to].send(sent)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--interpret", metavar="SIZE", choices=tuple(WORDS), required=True, help="the program's size")
    parser.add_argument("--interfaces", metavar="NAME,...", required=True, help="which must be up; 4 at most")
    parser.add_argument("--bind", metavar="HOST:PORT", default="127.0.0.1:0", help="of the control service")
    options = parser.parse_args()
    names = options.interfaces.split(",")
    if len(names) > len(PORTS):
        parser.error(f"{len(names)} interfaces; the chip has {len(PORTS)} ports here")
    tables = ChipTables(Program(text_of(options.interpret)), SIZES[options.interpret].pool_pipe)
    chip = description(options.interpret)
    untagged = tuple(dataclasses.replace(port, tag=None) for port in chip.ports)
    plane = TofinoPlane(tables, dataclasses.replace(chip, ports=untagged))
    server = ControlServer(plane, options.bind, ask_every=0)  # a test waits for fresh counters
    plane.ended = server.end_job
    interfaces = Interfaces(tables, names)
    print(f"control service at {server.address}", flush=True)
    while True:
        interfaces.step()


if __name__ == "__main__":
    sys.exit(main())
