"""The device that is p4/tofino in the P4 interpreter, with the project's controller behind its control service. The
model's device (model.py) uses parts of it."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from interpreter import source
from interpreter.controller_tables import ChipTables
from interpreter.errors import UndefinedError
from interpreter.program import Program

from conformance.devices import TOFINO, frames
from conformance.devices.chip_state import Cells, Registers
from conformance.devices.harness import HarnessError
from conformance.devices.links import Address
from conformance.devices.switch import SwitchDevice
from conformance.vector import Job, Packet, Receive, Value
from jaxina.control.server import ControlServer
from jaxina.controller.chip import ATP, SIZES, Chip, Host, Port, Size
from jaxina.controller.data_plane import TofinoPlane
from jaxina.controller.tables import Tables

FOLDER = Path(__file__).parents[2] / "tofino"
PROGRAM = FOLDER / "jaxina.p4"
ADDRESS, MAC = "198.18.0.1", b"\x02\x4a\x58\xff\xff\xff"
_NETWORK = ipaddress.ip_network("198.18.64.0/18")
_HOSTS = 64  # more than a vector has endpoints
PORTS = (0, 5, 128, 300)  # in three pipes, so that packets must be handed over
TAGS = {5: 3 << 13 | 100, 300: 5 << 13}  # of ports with 802.1Q tags: VLAN 100 with priority 3; priority 5 alone
_UDP_PORT = 40000
SHORTEST_FRAME = 60  # bytes, without the frame check sequence
_SETTLE_TIMEOUT = 60.0
_WORKER_RATE = 1.0  # Gbit/s; nothing in the interpreter takes time


def text_of(size: str, definitions: Sequence[str] = (), program: Path | None = None) -> str:
    """Returns the preprocessed text of the program in this size, or of another main file."""
    made = size_of(size)
    return source.preprocess(program or FOLDER / f"{made.program}.p4", [f"PIPES={made.pipes}", *definitions])


def size_of(name: str) -> Size:
    return ATP if name == ATP.name else SIZES[name]


class WrongWayError(Exception):
    """A frame leaves the chip at a port where its addressee is not."""


def entering(port: int, frame: frames.Frame) -> bytes:
    """Returns the bytes of a frame that comes in on a port, with the port's tag."""
    data, tag = frames.to_bytes(frame), TAGS.get(port)
    return (data if tag is None else frames.with_tag(data, tag)).ljust(SHORTEST_FRAME, b"\0")


def leaving(port: int, data: bytes) -> frames.Frame:
    """Decodes a frame that leaves by a port. Raises WrongWayError if it is not UDP, or has not the port's tag."""
    tag, plain = frames.without_tag(data)
    frame = frames.from_bytes(plain)
    if frame is None or frames.ones_complement(plain[14:34]) or tag != TAGS.get(port):
        raise WrongWayError(f"at port {port} comes {data.hex()}")
    return frame


class TablesOfAChip(Tables, Cells, Protocol):
    """The controller's way to a chip that is no hardware, and the chip's ports."""

    def send(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        """Lets a frame come in on a port, and returns what leaves the chip: (port, frame)."""
        ...

    def settle(self, timeout: float) -> None:
        """Waits until the controller has handled all digests. Raises TimeoutError if it has not in time."""
        ...


class ChipLink:
    """A link to the chip's ports. Endpoint n has the n-th host's address and port."""

    def __init__(self, tables: TablesOfAChip):
        self.tables = tables
        self._endpoints: dict[str, Host] = {}
        self._came: list[tuple[str, Address, bytes]] = []

    def open(self, endpoint: str) -> Address:
        self._endpoints[endpoint] = HOSTS[len(self._endpoints)]
        return self.address_of(endpoint)

    def address_of(self, endpoint: str) -> Address:
        return (self._endpoints[endpoint].ip, _UDP_PORT)

    def send(self, endpoint: str, to: Address, payload: bytes) -> None:
        """Sends a frame, delivers what leaves the chip, and waits until the controller has handled the chip's digests.

        Raises:
          UndefinedError: if the outcome depends on something that the chip does not define.
          WrongWayError: if a frame leaves by a wrong port.
        """
        for port, sent in self.tables.send(*self.frame(endpoint, to, payload)):
            self.deliver(port, sent)
        self.tables.settle(_SETTLE_TIMEOUT)

    def frame(self, endpoint: str, to: Address, payload: bytes) -> tuple[int, bytes]:
        """Returns the port by which an endpoint's frame comes in, and the frame."""
        host = self._endpoints[endpoint]
        frame = frames.Frame(host.mac.to_bytes(6), (host.ip, _UDP_PORT), MAC, to, payload)
        return host.port, entering(host.port, frame)

    def deliver(self, port: int, data: bytes) -> None:
        """Takes a frame that leaves the chip by this port to its endpoint. Raises WrongWayError if there is none."""
        frame = leaving(port, data)
        for endpoint, host in self._endpoints.items():
            mac, address = host.mac.to_bytes(6), (host.ip, _UDP_PORT)
            if (port, mac, address) == (host.port, frame.destination_mac, frame.destination):
                self._came.append((endpoint, frame.source, frame.payload))
                return
        raise WrongWayError(f"at port {port} comes a frame for {frame.destination}")

    def receive(self, timeout: float) -> list[tuple[str, Address, bytes]]:
        came, self._came = self._came, []
        return came

    def close_endpoints(self) -> None:
        self._endpoints = {}

    def close(self) -> None:
        pass


def _host(number: int) -> Host:
    mac = int.from_bytes(bytes([2, 0x4A, 0x58, 0])) << 16 | number
    return Host(str(_NETWORK[number + 1]), mac, PORTS[number % len(PORTS)])


HOSTS = tuple(_host(number) for number in range(_HOSTS))


def description(size: str, address: str = ADDRESS) -> Chip:
    """Returns the chip's description for the controller."""
    ports = tuple(Port(port, 100, "none", TAGS.get(port)) for port in PORTS)
    return Chip(size_of(size), address, ports, HOSTS, _WORKER_RATE)


class ChipDevice(SwitchDevice):
    """A chip in the size `size`, behind the project's control service."""

    def __init__(self, size: str, tables: TablesOfAChip):
        chip = description(size)
        self._plane = TofinoPlane(tables, chip)
        self._server = ControlServer(self._plane, "127.0.0.1:0", ask_every=0)  # vectors wait for fresh counters
        self._plane.ended = self._server.end_job
        words = chip.size.words
        abilities = TOFINO[words] | {"state", "first_epoch"}
        super().__init__(self._server.address, ADDRESS, ChipLink(tables), abilities, {words})
        self._registers = Registers(tables, chip.size.pipes)
        self.name = f"the program in the size {size}"

    def send(self, endpoint: str, packet: Packet) -> None:
        try:
            super().send(endpoint, packet)
        except (UndefinedError, WrongWayError, HarnessError) as error:
            failure = Packet("impossible", {"why": str(error).replace(" ", "_")})
            self._came.append(Receive(endpoint, failure))

    def state(self, job: str, slot: int, version: int) -> dict[str, Value | None]:
        try:
            return self._registers.state(self._plane.part_of(self._names.jobs[job]), slot, version)
        except (UndefinedError, HarnessError) as error:
            return {"impossible": str(error).replace(" ", "_")}

    def close(self) -> None:
        super().close()
        self._server.stop()
        self._plane.stop()

    def _create(self, job: Job) -> None:
        super()._create(job)
        if job.first_epoch:
            part = self._plane.part_of(self._names.jobs[job.name])
            self._registers.begin_with(part, job.first_epoch)

    def _settle(self) -> None:
        """Takes all replies. There is nothing to wait for: send() has taken the packet all the way, and has waited for
        the controller."""
        for endpoint, sender, payload in self._link.receive(0):
            self._take(endpoint, sender, payload)

    def _introduce(self, job: Job, worker: int) -> None:
        self.send(f"{job.name}{worker}", self._introduction(job, worker))


class InterpretedDevice(ChipDevice):
    """The interpreted program. `text` is the preprocessed text of the program in the size `size`."""

    def __init__(self, size: str, text: str):
        super().__init__(size, ChipTables(Program(text), SIZES[size].pool_pipe))
