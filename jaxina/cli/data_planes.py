"""The data planes that ``jaxina switch`` runs: datagrams and RDMA in software, frames between interfaces, a Tofino."""

from __future__ import annotations

import contextlib
import dataclasses
import ipaddress
import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxina import config
from jaxina.errors import InvalidArgumentError

if TYPE_CHECKING:
    from jaxina.control.tls import Tls

ROCE_PORT = 4791  # the only UDP port that NICs send RoCEv2 packets to


@dataclasses.dataclass(frozen=True)
class Combining:
    """How the switch combines updates on their way to servers: see `SoftwareSwitch`."""

    entries: int
    share_sent_on: float
    port_rate: float


@contextlib.contextmanager
def software(
    host: str,
    data_ports: str | None,
    threads: int | None,
    rdma: str | None,
    icrc: bool,
    loss: float,
    loss_seed: int,
    combining: Combining,
) -> Iterator[tuple[Any, str]]:
    """Runs the software switch's data plane. Yields it, and a text that says where it is."""
    from jaxina import _native
    from jaxina.control.switch_planes import SwitchPlanes

    ports = _port_range(data_ports)
    count = threads or (len(ports) if ports else min(4, os.cpu_count() or 1))
    if ports and len(ports) != count:
        raise InvalidArgumentError(
            f"--data-ports {data_ports} has {len(ports)} ports, but there are {count} threads: give one port per thread"
        )
    rdma_host, rdma_port = _rdma_address(rdma)
    datagrams = _native.SoftwareSwitch(host, count, loss, loss_seed, ports, **dataclasses.asdict(combining))
    warn_of_small_buffers(datagrams.receive_buffer_granted, datagrams.receive_buffer_requested)
    try:
        roce = _native.RoceSwitch(rdma_host, rdma_port, icrc, loss, loss_seed) if rdma else None
        where = f"UDP {', '.join(map(str, datagrams.ports))} of {host}"
        if roce is not None:
            where += f", RDMA at UDP {roce.port} of {rdma_host}"
        yield SwitchPlanes(datagrams, roce), where
    finally:
        datagrams.stop()


@contextlib.contextmanager
def transparent(
    interfaces: str, racks: Sequence[str], token: str | None, tls: Tls | None = None
) -> Iterator[tuple[Any, str]]:
    """Runs a transparent switch's data plane, perhaps above racks. Yields it, and a text that says where it is."""
    from jaxina import _native
    from jaxina.control.assistance import Helpers
    from jaxina.control.racked_plane import RackedPlane
    from jaxina.control.switch_address import ANSWER_TIMEOUT
    from jaxina.control.transparent_plane import TransparentPlane

    named = _racks(racks)
    frames = _native.FrameSwitch(interfaces.split(","))
    helpers = Helpers(ANSWER_TIMEOUT, token, tls)
    try:
        plane = RackedPlane(frames, named, helpers) if named else TransparentPlane(frames)
        above = f", above {len(named)} racks" if named else ""
        yield plane, f"the way between {interfaces}{above}"
    finally:
        helpers.close()
        frames.stop()


def _racks(options: Sequence[str]) -> dict[str, list[str]]:
    """The addresses of each rack's workers, by the control address of its switch."""
    racks: dict[str, list[str]] = {}
    for option in options:
        control, _, workers = option.partition("=")
        try:
            config.split_address(control)
            addresses = [str(ipaddress.IPv4Address(one)) for one in workers.split(",")]
        except ValueError as error:
            raise InvalidArgumentError(
                f"--rack {option}: {error}. It is HOST:PORT=ADDRESS,ADDRESS,... with the control address of the rack's "
                "switch, and its workers' IPv4 addresses"
            ) from None
        if control in racks or any(one in others for one in addresses for others in racks.values()):
            raise InvalidArgumentError(f"--rack {option}: this switch, or a worker's address, is in another rack too")
        racks[control] = addresses
    return racks


@contextlib.contextmanager
def tofino(chip_file: Path | None, bfrt: str, dry_run: bool) -> Iterator[tuple[Any, str]]:
    """Drives a Tofino chip's data plane. Yields it, and a text that says where it is."""
    from jaxina.controller import chip
    from jaxina.controller.atp_plane import AtpPlane
    from jaxina.controller.bfrt import BfRtTables
    from jaxina.controller.chip_plane import UDP_PORT
    from jaxina.controller.cpu_port import CpuPort, PacketSocket
    from jaxina.controller.data_plane import ROCE_PORT, TofinoPlane
    from jaxina.controller.dry_run import DryRun

    if chip_file is None:
        raise InvalidArgumentError("--backend tofino needs --chip FILE; p4/controller/chip.py describes the file")
    described = chip.read(chip_file)
    size = described.size
    with contextlib.ExitStack() as running:
        cpu = described.cpu
        frames = None if dry_run or cpu is None else PacketSocket(cpu.interface, cpu.mac)
        tables = DryRun(log=True) if dry_run else BfRtTables(bfrt, size.program, size.pool_pipe, size.digests)
        plane = (AtpPlane if size == chip.ATP else TofinoPlane)(tables, described)
        running.callback(plane.stop)
        if frames is not None:
            running.callback(CpuPort(frames, described).stop)
        ports = f"{UDP_PORT}" if size == chip.ATP else f"{UDP_PORT} and {ROCE_PORT}"
        yield plane, f"UDP {ports} of {described.address}, {size.name} Tofino"


def warn_of_small_buffers(granted: int, requested: int) -> None:
    """Warns if net.core.rmem_max limited the data ports' receive buffers (in bytes)."""
    if granted < requested:
        logging.getLogger("jaxina.switch").warning(
            "the system grants receive buffers of %d bytes instead of %d, so packets of many workers at once may be "
            "lost. To allow larger ones, before starting the switch: sysctl -w net.core.rmem_max=%d",
            granted,
            requested,
            requested,
        )


def _rdma_address(text: str | None) -> tuple[str, int]:
    if text is None or ":" not in text:
        return text or "", ROCE_PORT
    try:
        return config.split_address(text)
    except ValueError as error:
        raise InvalidArgumentError(f"--rdma: {error}") from None


def _port_range(text: str | None) -> list[int]:
    if text is None:
        return []
    first, _, last = text.partition("-")
    try:
        ports = list(range(int(first), int(last or first) + 1))
    except ValueError:
        ports = []
    if not ports or not 0 < ports[0] <= ports[-1] < 65536:
        raise InvalidArgumentError(f"--data-ports {text!r} is not FIRST-LAST, such as 51001-51004")
    return ports
