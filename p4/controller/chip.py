"""Reads the TOML file that describes the switch to the controller.

    size = "one-pipe"          # or "two-pipes", "four-pipes"
    address = "198.18.0.1"     # IPv4 address that workers send to
    worker_rate = 40           # Gbit/s that one worker sends at most; left out, the speed of the fastest port

    [[port]]
    number = 132               # the chip's number of the port
    speed = 100                # Gbit/s: 10, 25, 40, 50 or 100
    fec = "rs"                 # none, fc or rs

    [[loopback]]               # a port without a cable, for packets that need another pass in its pipe
    number = 20
    speed = 100
    hand_over = false          # true: for packets that other pipes hand over to the pool's pipe

    [[host]]
    ip = "198.18.1.1"
    mac = "02:00:00:00:01:01"
    port = 132

The switch forwards other traffic only to these hosts, and RDMA workers can only be on these hosts.

Packets come round by the recirculation port of a pipe and by its loopback ports. `jaxina switch` refuses a job with
which they would have to carry more than their speed; docs/tofino.md says how many a job needs.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import tomllib
from pathlib import Path
from typing import Any

from jaxina.errors import InvalidArgumentError

SPEEDS = {gigabits: f"BF_SPEED_{gigabits}G" for gigabits in (10, 25, 40, 50, 100)}
FECS = {"none": "BF_FEC_TYP_NONE", "fc": "BF_FEC_TYP_FC", "rs": "BF_FEC_TYP_RS"}
PORTS_OF_A_PIPE = 128  # port numbers per pipe; not every number is a port
RECIRCULATION_SPEED = 100  # Gbit/s of a pipe's recirculation port
LANES = 16  # ways to each step; slot i takes way i mod LANES (p4/tofino/recirculation.p4)
MOST_LOOPBACKS = 64  # p4/tofino/constants.p4


@dataclasses.dataclass(frozen=True)
class Size:
    """One of the three programs. The figures are those of p4/tofino/constants.p4."""

    name: str
    pipes: int  # how many pipes share a packet's words

    program = "jaxina"
    pool_pipe = 0
    slots = 1024
    workers = 32  # of a job
    jobs = 255
    admissions = 512
    blocks_per_chunk = 1

    @property
    def words(self) -> int:
        return 64 * self.pipes

    @property
    def message_bytes(self) -> int:
        """Bytes of the longest RDMA message: the words, and one exponent padded to 4."""
        return 4 * self.words + 4

    @property
    def place_bytes(self) -> int:
        """Bytes between two places of a slot in a worker's memory (docs/rdma.md)."""
        return 1 << (self.message_bytes - 1).bit_length()


SIZES = {size.name: size for size in (Size("one-pipe", 1), Size("two-pipes", 2), Size("four-pipes", 4))}


@dataclasses.dataclass(frozen=True)
class Port:
    number: int
    speed: int
    fec: str

    @property
    def pipe(self) -> int:
        return self.number // PORTS_OF_A_PIPE


@dataclasses.dataclass(frozen=True)
class Loopback(Port):
    hand_over: bool


@dataclasses.dataclass(frozen=True)
class Host:
    ip: str
    mac: int
    port: int


@dataclasses.dataclass(frozen=True)
class Chip:
    size: Size
    address: str
    ports: tuple[Port, ...]
    hosts: tuple[Host, ...]
    worker_rate: float
    loopbacks: tuple[Loopback, ...] = ()

    @property
    def pipes(self) -> list[int]:
        """The pipes that have ports, ascending."""
        return sorted({port.pipe for port in self.ports})

    def hand_over_way(self, worker: int) -> int:
        """Returns the port by which the other pipes hand a worker's packets over to the pool's pipe."""
        ways = [recirculation_port(self.size.pool_pipe)]
        ways += [port.number for port in self.loopbacks if port.hand_over]
        return ways[worker % len(ways)]

    def way(self, pipe: int, lane: int) -> int:
        """Returns the port by which packets of the lane come round for another pass in the pipe.

        If there are loopback ports, packets that other pipes hand over have the recirculation port to
        themselves.
        """
        ways = [port.number for port in self.loopbacks if port.pipe == pipe and not port.hand_over]
        hands_over = pipe == self.size.pool_pipe and self.pipes != [pipe]
        if not ways or not hands_over:
            ways.append(recirculation_port(pipe))
        return ways[lane % len(ways)]

    def speed_of(self, port: int) -> int:
        """Returns the Gbit/s of a port by which packets come round."""
        return next((one.speed for one in self.loopbacks if one.number == port), RECIRCULATION_SPEED)

    def host(self, ip: str) -> Host | None:
        return next((host for host in self.hosts if host.ip == ip), None)


def recirculation_port(pipe: int) -> int:
    return PORTS_OF_A_PIPE * pipe + 68


def read(path: Path) -> Chip:
    """Reads the file.

    Raises:
      InvalidArgumentError: if the file cannot be read, or something in it is wrong; the message says what.
    """
    try:
        fields = tomllib.loads(path.read_text())
        return _chip(fields)
    except OSError as error:
        raise InvalidArgumentError(f"cannot read {path}: {error.strerror}") from None
    except KeyError as error:
        raise InvalidArgumentError(f"{path}: {error} is missing") from None
    except (ValueError, TypeError) as error:
        raise InvalidArgumentError(f"{path}: {error}") from None


def _chip(fields: dict[str, Any]) -> Chip:
    ports = tuple(_port(port) for port in fields.get("port", ()))
    hosts = tuple(_host(host) for host in fields.get("host", ()))
    unknown = {host.port for host in hosts} - {port.number for port in ports}
    if unknown:
        raise ValueError(f"a host is at port {min(unknown)}, which the file does not name")
    if fields["size"] not in SIZES:
        raise ValueError(f"size {fields['size']!r} is none of {', '.join(SIZES)}")
    size = SIZES[fields["size"]]
    if not ports:
        raise ValueError("it names no [[port]], so no worker can be connected")
    loopbacks = tuple(_loopback(port) for port in fields.get("loopback", ()))
    _check_loopbacks(size, ports, loopbacks)
    fastest = max(port.speed for port in ports)
    worker_rate = float(fields.get("worker_rate", fastest))
    if not 0 < worker_rate <= fastest:
        raise ValueError(f"worker_rate {worker_rate:g} is not above 0 and at most {fastest}, the fastest port's speed")
    address = str(ipaddress.IPv4Address(fields["address"]))
    return Chip(size, address, ports, hosts, worker_rate, loopbacks)


def _check_loopbacks(size: Size, ports: tuple[Port, ...], loopbacks: tuple[Loopback, ...]) -> None:
    if len(loopbacks) > MOST_LOOPBACKS:
        raise ValueError(f"{len(loopbacks)} loopback ports; the program knows at most {MOST_LOOPBACKS}")
    numbers = [port.number for port in (*ports, *loopbacks)]
    twice = {number for number in numbers if numbers.count(number) > 1}
    if twice:
        raise ValueError(f"port {min(twice)} is there twice")
    for port in loopbacks:
        if port.pipe >= size.pipes:
            raise ValueError(
                f"loopback port {port.number} is in pipe {port.pipe}, where no packet of the size {size.name} "
                "passes again"
            )
        if port.hand_over and port.pipe != size.pool_pipe:
            raise ValueError(
                f"loopback port {port.number} hands over, so it must be in pipe {size.pool_pipe}, the pool's"
            )


def _port(fields: dict[str, Any]) -> Port:
    port = Port(int(fields["number"]), int(fields.get("speed", 100)), fields.get("fec", "none"))
    if port.speed not in SPEEDS or port.fec not in FECS:
        raise ValueError(f"port {port.number} has a speed or fec that there is not")
    return port


def _loopback(fields: dict[str, Any]) -> Loopback:
    return Loopback(**dataclasses.asdict(_port(fields)), hand_over=bool(fields.get("hand_over", False)))


def _host(fields: dict[str, Any]) -> Host:
    digits = str(fields["mac"]).replace(":", "")
    if len(digits) != 12:
        raise ValueError(f"{fields['mac']} is no MAC address")
    return Host(str(ipaddress.IPv4Address(fields["ip"])), int(digits, 16), int(fields["port"]))
