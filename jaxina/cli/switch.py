"""``jaxina switch``: runs a switch with its control service, in software or as the controller of a Tofino chip."""

from __future__ import annotations

import contextlib
import enum
import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jaxina import config
from jaxina.cli import data_planes
from jaxina.cli.common_options import announce, host_in, log_to_terminal, read_token
from jaxina.cli.signals import Signals
from jaxina.errors import InvalidArgumentError

if TYPE_CHECKING:
    from jaxina.control.server import ControlServer
    from jaxina.control.tls import Tls

_BIND = "127.0.0.1:51000"  # nobody else reaches it: who serves other hosts says where
_CONTROL_NICENESS = 5  # added to the niceness of the control service's threads


class Backend(enum.StrEnum):
    software = "software"
    tofino = "tofino"


def register(app: typer.Typer) -> None:
    app.command("switch")(switch)


def switch(
    bind: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT",
            help="Where the control service listens. Workers name this address by --switch or JAXINA_SWITCH. HOST may "
            "be the name of a network interface, or a subnet: eth1:51000, 10.0.0.0/24:51000.",
        ),
    ] = _BIND,
    upstream: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Control address of the core switch above this one, if workers of several racks name the switch of "
            "their own rack (aggregator='atp'). The job's first worker must reach it.",
        ),
    ] = None,
    data_ports: Annotated[
        str | None,
        typer.Option(
            metavar="FIRST-LAST",
            help="UDP ports of the data path, one per thread. If not given, the system picks them.",
        ),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(min=1, max=256, help="Threads of the data path. If not given, one per processor, but at most 4."),
    ] = None,
    rdma: Annotated[
        str | None,
        typer.Option(
            metavar="HOST[:PORT]",
            help="Answer RDMA too, at this IPv4 address of this host. NICs send to port 4791 only, the default.",
        ),
    ] = None,
    transparent: Annotated[
        str | None,
        typer.Option(
            metavar="INTERFACE,INTERFACE,...",
            help="Stand between hosts that are behind these network interfaces, and pass on what they send each other. "
            "What workers with aggregator='netreduce' write to each other is summed on its way. Such a switch does "
            "nothing else. It needs CAP_NET_RAW.",
        ),
    ] = None,
    rack: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST:PORT=ADDRESS,ADDRESS,...",
            help="With --transparent: this switch stands above those of racks. Give the control address of each rack's "
            "switch, which is started with --transparent too, and the IPv4 addresses of its workers. Workers name this "
            "switch. May be given several times.",
        ),
    ] = None,
    icrc: Annotated[
        bool,
        typer.Option(
            "--check-icrc/--no-check-icrc",
            help="Whether to drop RDMA packets with a wrong ICRC. Some senders do not write an ICRC.",
        ),
    ] = True,
    aggregators: Annotated[
        int,
        typer.Option(
            min=0,
            max=2**32 - 1,  # as a number; the switch itself knows how many it can have
            help="Entries of the table in which updates of jobs with aggregator='atp' are combined. All such jobs "
            "share it. Each thread has its part, which is rounded up to a prime number. An entry takes 9 KiB of memory "
            "once it is used.",
        ),
    ] = 1024,
    forward: Annotated[
        float,
        typer.Option(
            min=0, max=1, help="Share of their passes that are sent on without being combined, for experiments."
        ),
    ] = 0.0,
    port_rate: Annotated[
        float,
        typer.Option(
            min=0,
            max=1e6,
            metavar="MBIT",
            help="Megabits per second of the links from here to each worker's and server's host. If it is given, the "
            "switch marks packets of jobs with aggregator='atp' before the queue of such a link is full, and workers "
            "send less.",
        ),
    ] = 0.0,
    loss: Annotated[
        float, typer.Option(min=0, max=0.99, help="Share of arriving packets to drop, for experiments.")
    ] = 0.0,
    loss_seed: Annotated[int, typer.Option(min=0, max=2**64 - 1, help="Seed that chooses the dropped packets.")] = 0,
    backend: Annotated[
        Backend,
        typer.Option(
            help="What sums: threads of this host (software), or a Tofino chip that runs the program of p4/tofino."
        ),
    ] = Backend.software,
    chip: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With --backend tofino: the chip's size, address, ports and hosts, as in p4/controller/chip.py.",
        ),
    ] = None,
    bfrt: Annotated[
        str,
        typer.Option(metavar="HOST:PORT", help="With --backend tofino: where the chip's BfRt server listens."),
    ] = "127.0.0.1:50052",
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="With --backend tofino: use no chip, and log every write that its tables would get.",
        ),
    ] = False,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Serve only callers whose JAXINA_TOKEN is the token in FILE. If not given, the switch's own "
            "JAXINA_TOKEN, if set.",
        ),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Serve counters to Prometheus at http://HOST:PORT/metrics. If not given, JAXINA_METRICS, if set.",
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Log warnings only.")] = False,
    announce_fd: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> None:
    """Run a switch until Ctrl-C or SIGTERM.

    After SIGUSR1 it takes no new jobs, and ends when the running ones have ended.
    """
    from jaxina.control.interfaces import named, resolve_bind, with_port
    from jaxina.control.server import ControlServer
    from jaxina.control.tls import tls_of

    settings = config.resolve(token=read_token(token_file), metrics=metrics)
    if bind == _BIND and settings.interface is not None:
        bind = with_port(named(settings.interface), config.split_address(_BIND)[1])
    bind = resolve_bind(bind)
    host = host_in("--bind", bind)
    if upstream is not None:
        host_in("--upstream", upstream)
    token, tls = settings.token, tls_of(settings)
    log_to_terminal(quiet)
    if transparent is not None:
        if upstream or data_ports or threads or rdma or loss or not icrc or port_rate or backend is Backend.tofino:
            raise InvalidArgumentError(
                "--transparent goes with --bind, --rack and --token-file only: such a switch does nothing but sum rings"
            )
        plane = data_planes.transparent(transparent, rack or [], token, tls)
    elif rack:
        raise InvalidArgumentError("--rack needs --transparent: it is for switches that sum rings")
    elif backend is Backend.tofino:
        if upstream or data_ports or threads or rdma or loss or not icrc or port_rate:
            raise InvalidArgumentError(
                "--upstream, --data-ports, --threads, --rdma, --no-check-icrc, --loss and --port-rate need --backend "
                "software"
            )
        plane = data_planes.tofino(chip, bfrt, dry_run)
    else:
        if chip or dry_run:
            raise InvalidArgumentError("--chip and --dry-run need --backend tofino")
        combining = data_planes.Combining(aggregators, forward, port_rate)
        plane = data_planes.software(host, data_ports, threads, rdma, icrc, loss, loss_seed, combining)
    with (
        Signals((signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)) as signals,
        plane as (data_plane, where),
        contextlib.ExitStack() as running,
    ):
        _let_data_path_go_first()
        with ControlServer(data_plane, bind, token, upstream=upstream or "", tls=tls) as server:
            if hasattr(data_plane, "ended"):  # it may find that a job cannot go on
                data_plane.ended = server.end_job
            server.ended.add_done_callback(lambda _: signals.send(signal.SIGTERM))
            log = logging.getLogger("jaxina.switch")
            if settings.metrics is not None:
                running.enter_context(_metrics(settings.metrics, server, tls))
            announce(announce_fd, server.address)
            log.info("control at %s, data at %s%s", server.address, where, f", upstream {upstream}" if upstream else "")
            of_token = "everybody who reaches it" if token is None else "only callers with its token"
            log.info("serving %s", f"{of_token}, with a certificate of its authority" if tls else of_token)
            while signals.wait() == signal.SIGUSR1:
                log.info("draining: no new jobs")
                server.drain(lambda: signals.send(signal.SIGTERM))
            log.info("stopping")
        server.ended.result()


@contextlib.contextmanager
def _metrics(bind: str, server: ControlServer, tls: Tls | None) -> Iterator[None]:
    """Serves the switch's metrics while the context lasts."""
    from jaxina.metrics.endpoint import Endpoint

    def collector() -> object:
        from jaxina.metrics.families import SwitchCollector

        return SwitchCollector(server.status)

    endpoint = Endpoint(bind, 0, collector, tls)
    try:
        yield
    finally:
        endpoint.stop()


def _let_data_path_go_first() -> None:
    """Lowers the priority of this thread and of those that it starts from now on.

    The data path's threads run already and keep theirs. So callers that flood the control service take less of the
    processor from the jobs.
    """
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    os.setpriority(os.PRIO_PROCESS, 0, min(usual + _CONTROL_NICENESS, 19))
