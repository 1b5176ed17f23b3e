"""`jaxina switch`: a software switch with its control service."""

from __future__ import annotations

import logging
import os
import signal
import threading
from typing import Annotated

import typer
from rich.console import Console
from rich.logging import RichHandler

from jaxina import config
from jaxina.errors import InvalidArgumentError

ROCE_PORT = 4791  # that NICs send to


def register(app: typer.Typer) -> None:
    app.command("switch")(switch)


def switch(
    bind: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT",
            help="Where the control service listens; workers name it by --switch.",
        ),
    ] = "0.0.0.0:51000",
    data_ports: Annotated[
        str | None,
        typer.Option(
            metavar="FIRST-LAST",
            help="UDP ports of the data path, one per thread; left out, the system picks.",
        ),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(
            min=1, max=256, help="Threads of the data path; left out, one per processor, at most 4."
        ),
    ] = None,
    rdma: Annotated[
        str | None,
        typer.Option(
            metavar="HOST[:PORT]",
            help="Answer RDMA too, at this IPv4 address of this host; NICs send to port 4791 only.",
        ),
    ] = None,
    icrc: Annotated[
        bool,
        typer.Option(
            "--check-icrc/--no-check-icrc",
            help="Whether RDMA packets whose ICRC is wrong are dropped; some senders do not write it.",
        ),
    ] = True,
    loss: Annotated[
        float, typer.Option(min=0, max=0.99, help="Share of arriving packets to drop.")
    ] = 0.0,
    loss_seed: Annotated[int, typer.Option(min=0, help="Seed of the dropped packets.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", help="Log warnings only.")] = False,
    announce_fd: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> None:
    """Run a software switch until Ctrl-C or SIGTERM."""
    from jaxina import _native
    from jaxina.control.server import ControlServer
    from jaxina.control.switch_planes import SwitchPlanes

    host = _host(bind)
    ports = _port_range(data_ports)
    count = threads or (len(ports) if ports else min(4, os.cpu_count() or 1))
    if ports and len(ports) != count:
        raise InvalidArgumentError(
            f"--data-ports {data_ports} are {len(ports)} ports for --threads {count}: one each"
        )
    _log_to_terminal(quiet)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    rdma_host, rdma_port = _rdma_address(rdma)
    data_plane = _native.SoftwareSwitch(host, count, loss, loss_seed, ports)
    try:
        roce = _native.RoceSwitch(rdma_host, rdma_port, icrc, loss, loss_seed) if rdma else None
        with ControlServer(SwitchPlanes(data_plane, roce), bind) as server:
            if announce_fd is not None:
                os.write(announce_fd, f"{server.address}\n".encode())
                os.close(announce_fd)
            log = logging.getLogger("jaxina.switch")
            log.info(
                "control at %s, data at UDP %s of %s",
                server.address,
                ", ".join(map(str, data_plane.ports)),
                host,
            )
            if roce is not None:
                log.info("RDMA at UDP %d of %s", roce.port, rdma_host)
            stop.wait()
            log.info("stopping")
    finally:
        data_plane.stop()


def _host(bind: str) -> str:
    try:
        return config.split_address(bind)[0]
    except ValueError as error:
        raise InvalidArgumentError(f"--bind: {error}") from None


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
        raise InvalidArgumentError(f"--data-ports {text!r} is not FIRST-LAST, as 51001-51004")
    return ports


def _log_to_terminal(quiet: bool) -> None:
    console = Console(stderr=True)
    handler: logging.Handler
    if console.is_terminal:
        handler = RichHandler(console=console, show_path=False)
    else:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger = logging.getLogger("jaxina")
    logger.addHandler(handler)
    logger.setLevel(logging.WARNING if quiet else logging.INFO)
