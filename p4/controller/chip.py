"""Reads the TOML file that describes the switch to the controller.

    size = "one-pipe"          # or "two-pipes", "four-pipes"; "atp" is the program that combines updates
    address = "198.18.0.1"     # IPv4 address that workers send to
    worker_rate = 40           # Gbit/s that one worker sends at most; left out, the speed of the fastest port

    [[port]]
    number = 132               # the chip's number of the port
    speed = 100                # Gbit/s: 10, 25, 40, 50 or 100
    fec = "rs"                 # none, fc or rs
    vlan = 100                 # 802.1Q tag of what the switch sends to workers here, 0 to 4094; left out, none
    priority = 3               # the tag's 802.1p priority, 0 to 7; with vlan = 0 the tag is only that

    [[loopback]]               # a port without a cable, for packets that need another pass in its pipe
    number = 20
    speed = 100
    hand_over = false          # true: for packets that other pipes hand over to the pool's pipe

    [[host]]
    ip = "198.18.1.1"
    mac = "02:00:00:00:01:01"
    port = 132

    [cpu]                      # the port to the controller's host; left out, nobody answers ARP and pings
    port = 64
    interface = "enp4s0f0"     # the host's network interface at this port; it needs no address
    mac = "02:4a:58:00:00:01"  # the switch's MAC address

    [flow_control]             # left out, the ports neither send nor obey pause frames
    mode = "pfc"               # or "pause"
    priority = 3               # with pfc: the 802.1p priority of the workers' packets

The switch forwards other traffic only to these hosts, so only they get answers to ARP and pings, and RDMA workers can
only be on these hosts.

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
PIPES = 4  # of the largest chip
PORTS_OF_A_PIPE = 128  # port numbers per pipe; not every number is a port
RECIRCULATION_SPEED = 100  # Gbit/s of a pipe's recirculation port
LANES = 16  # ways to each step; slot i takes way i mod LANES (p4/tofino/recirculation.p4)
MOST_LOOPBACKS = 64  # p4/tofino/constants.p4
PRIORITIES = 8  # of 802.1p
VLANS = 4095  # of 802.1Q; 0 says that a tag has only a priority


@dataclasses.dataclass(frozen=True)
class Size:
    """One of the programs. The figures are those of p4/tofino/constants.p4."""

    name: str
    pipes: int  # how many pipes share a packet's words
    program: str = "jaxina"  # the file in p4/tofino

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
    def digests(self) -> tuple[str, ...]:
        """The names of the program's digests."""
        return ("heard",) if self.program == "atp" else ("heard", "contradiction")

    @property
    def message_bytes(self) -> int:
        """Bytes of the longest RDMA message: the words, and one exponent padded to 4."""
        return 4 * self.words + 4

    @property
    def place_bytes(self) -> int:
        """Bytes between two places of a slot in a worker's memory (docs/rdma.md)."""
        return 1 << (self.message_bytes - 1).bit_length()


SIZES = {size.name: size for size in (Size("one-pipe", 1), Size("two-pipes", 2), Size("four-pipes", 4))}
ATP = Size("atp", 1, "atp")  # it combines the updates of aggregator="atp"; the others sum


@dataclasses.dataclass(frozen=True)
class Port:
    number: int
    speed: int
    fec: str
    tag: int | None = None  # what 802.1Q calls TCI: the priority in the highest 3 of 16 bits, the VLAN in the lowest 12

    @property
    def pipe(self) -> int:
        return self.number // PORTS_OF_A_PIPE


@dataclasses.dataclass(frozen=True)
class Loopback(Port):
    hand_over: bool = False


@dataclasses.dataclass(frozen=True)
class Host:
    ip: str
    mac: int
    port: int


@dataclasses.dataclass(frozen=True)
class Cpu:
    port: int
    interface: str
    mac: int


@dataclasses.dataclass(frozen=True)
class FlowControl:
    """Which pause frames the ports send and obey. The priority is that of PFC; None: those that stop the whole port."""

    priority: int | None


@dataclasses.dataclass(frozen=True)
class Chip:
    size: Size
    address: str
    ports: tuple[Port, ...]
    hosts: tuple[Host, ...]
    worker_rate: float
    loopbacks: tuple[Loopback, ...] = ()
    cpu: Cpu | None = None
    flow_control: FlowControl | None = None

    @property
    def attached(self) -> list[int]:
        """The ports at which other traffic comes and goes: those of the file, and the one to the controller's host."""
        numbers = [port.number for port in self.ports]
        return numbers if self.cpu is None or self.cpu.port in numbers else [*numbers, self.cpu.port]

    @property
    def pipes(self) -> list[int]:
        """The pipes that have ports, ascending."""
        return sorted({number // PORTS_OF_A_PIPE for number in self.attached})

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
    programs = {**SIZES, ATP.name: ATP}
    if fields["size"] not in programs:
        raise ValueError(f"size {fields['size']!r} is none of {', '.join(programs)}")
    size = programs[fields["size"]]
    if not ports:
        raise ValueError("it names no [[port]], so no worker can be connected")
    loopbacks = tuple(_loopback(port) for port in fields.get("loopback", ()))
    _check_loopbacks(size, ports, loopbacks)
    fastest = max(port.speed for port in ports)
    worker_rate = float(fields.get("worker_rate", fastest))
    if not 0 < worker_rate <= fastest:
        raise ValueError(f"worker_rate {worker_rate:g} is not above 0 and at most {fastest}, the fastest port's speed")
    address = str(ipaddress.IPv4Address(fields["address"]))
    cpu = _cpu(fields["cpu"], hosts, loopbacks) if "cpu" in fields else None
    flow_control = _flow_control(fields["flow_control"]) if "flow_control" in fields else None
    return Chip(size, address, ports, hosts, worker_rate, loopbacks, cpu, flow_control)


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
    number = int(fields["number"])
    port = Port(number, int(fields.get("speed", 100)), fields.get("fec", "none"), _tag(number, fields))
    if port.speed not in SPEEDS or port.fec not in FECS:
        raise ValueError(f"port {port.number} has a speed or fec that there is not")
    return port


def _tag(port: int, fields: dict[str, Any]) -> int | None:
    vlan, priority = fields.get("vlan"), fields.get("priority", 0)
    if vlan is None and "priority" not in fields:
        return None
    if (
        type(vlan) is not int
        or vlan not in range(VLANS)
        or type(priority) is not int
        or priority not in range(PRIORITIES)
    ):
        raise ValueError(
            f"port {port} has vlan {vlan!r} and priority {priority!r}: give a vlan from 0 to {VLANS - 1}, and a "
            f"priority from 0 to {PRIORITIES - 1}"
        )
    return priority << 13 | vlan


def _loopback(fields: dict[str, Any]) -> Loopback:
    port = _port(fields)
    if port.tag is not None:
        raise ValueError(f"loopback port {port.number} has a vlan, but its packets leave the chip at no other end")
    return Loopback(**dataclasses.asdict(port), hand_over=bool(fields.get("hand_over", False)))


def _host(fields: dict[str, Any]) -> Host:
    return Host(str(ipaddress.IPv4Address(fields["ip"])), _mac(fields["mac"]), int(fields["port"]))


def _mac(text: Any) -> int:
    digits = str(text).replace(":", "")
    if len(digits) != 12:
        raise ValueError(f"{text} is no MAC address")
    return int(digits, 16)


def _cpu(fields: dict[str, Any], hosts: tuple[Host, ...], loopbacks: tuple[Loopback, ...]) -> Cpu:
    cpu = Cpu(int(fields["port"]), str(fields["interface"]), _mac(fields["mac"]))
    around = {port.number for port in loopbacks} | {recirculation_port(pipe) for pipe in range(PIPES)}
    if not 0 <= cpu.port < PIPES * PORTS_OF_A_PIPE or cpu.port in around:
        raise ValueError(f"[cpu] port {cpu.port} is no port of the chip, or packets come round by it")
    if cpu.mac >> 40 & 1 or not cpu.mac or cpu.mac in {host.mac for host in hosts}:
        raise ValueError("the mac of [cpu] is that of a group or of a host")
    return cpu


def _flow_control(fields: dict[str, Any]) -> FlowControl:
    mode, priority = fields["mode"], fields.get("priority")
    if mode == "pause" and priority is None:
        return FlowControl(None)
    if mode != "pfc" or type(priority) is not int or priority not in range(PRIORITIES):
        raise ValueError(
            f'[flow_control] has mode {mode!r} and priority {priority!r}: give mode "pause", or mode "pfc" and a '
            f"priority from 0 to {PRIORITIES - 1}"
        )
    return FlowControl(priority)
