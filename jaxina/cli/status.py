"""``jaxina status``: shows what a switch is doing, once or continuously."""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from google.protobuf.json_format import MessageToDict
from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from jaxina import config
from jaxina.cli import job_status
from jaxina.cli.common_options import host_in
from jaxina.errors import InvalidArgumentError

_CALL_TIMEOUT = 5.0  # seconds
_RECEIVE_BUFFER = 32 << 20  # bytes of receive buffer that the switch asks for, per socket
_LOST_INSIDE = (
    "the chip has lost {:,} updates on their way between its pipes. Workers send them again, but give the switch more "
    "[[loopback]] ports, or look at what else fills its buffer"
)


def register(app: typer.Typer) -> None:
    app.command("status")(status)


def status(
    switch: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="The switch's control address.")] = None,
    coordinator: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Show the job of this coordinator instead: its processes, who is late."),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Update the output until Ctrl-C.")] = False,
    interval: Annotated[
        float, typer.Option(min=0.5, max=60, help="Seconds over which rates are measured, and between updates.")
    ] = 1.0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON: one object; with --watch, one per line.")
    ] = False,
) -> None:
    """Show a switch's jobs: workers, slots, rates, retransmissions, rejected packets, and missing workers.

    With --coordinator: a job's processes, and which of them is late for a collective.
    """
    from jaxina.control.tls import tls_of

    if coordinator is not None:
        if switch is not None:
            raise InvalidArgumentError("--coordinator asks about a job and --switch about a switch: give one of them")
        host_in("--coordinator", coordinator)
        job_status.show(coordinator, watch, interval, as_json, tls_of(config.resolve()))
        return
    from jaxina.control.client import SwitchClient

    settings = config.resolve(switch=switch)
    if settings.aggregator in ("direct", "netreduce") and settings.origins["switch"] == "default":
        raise InvalidArgumentError(
            f"the {settings.aggregator} aggregator has no switch to ask. `jaxina run --stats` shows the workers' "
            "counters; --switch HOST:PORT asks a switch"
        )
    address = settings.switch
    if "," in address:
        raise InvalidArgumentError(f"JAXINA_SWITCH={address} names several switches: choose one by --switch HOST:PORT")
    console = Console()
    with (
        SwitchClient(address, _CALL_TIMEOUT, settings.token, tls=tls_of(settings)) as client,
        contextlib.suppress(KeyboardInterrupt),
    ):
        rates = Rates()
        rates.look(client.status())
        looks = (look(client, rates, interval) for _ in (itertools.count() if watch else range(1)))
        if as_json:
            for reply, growth in looks:
                print(json.dumps(record(reply, growth)), flush=True)
            return
        with Live(console=console, auto_refresh=False) if watch else contextlib.nullcontext() as live:
            for reply, growth in looks:
                view = render(address, reply, growth)
                if live is None:
                    console.print(view)
                else:
                    live.update(view, refresh=True)


class Rates:
    """Computes how fast counters grow, per second, between two replies."""

    def __init__(self) -> None:
        self._before: dict[int, dict[str, int]] = {}
        self._at = -1.0
        self._rates: dict[int, dict[str, float]] = {}

    def look(self, reply: Any) -> dict[int, dict[str, float]]:
        """Takes a reply, and returns the rates by job and counter.

        A job or counter that is new has the rate 0. A reply that the switch has given before changes nothing.
        """
        passed = reply.uptime_s - self._at
        if passed == 0:
            return self._rates
        now = {job.job: dict(job.counters) for job in reply.jobs}
        self._rates = {
            job: {
                name: (value - self._before[job].get(name, 0)) / passed if job in self._before and passed > 0 else 0.0
                for name, value in counters.items()
            }
            for job, counters in now.items()
        }
        self._before, self._at = now, reply.uptime_s
        return self._rates


def look(client: Any, rates: Rates, interval: float) -> tuple[Any, dict[int, dict[str, float]]]:
    """Asks the switch after `interval` seconds. Returns its reply, and its counters' rates since the reply before."""
    time.sleep(interval)
    reply = client.status()
    return reply, rates.look(reply)


def render(address: str, reply: Any, rates: Mapping[int, Mapping[str, float]]) -> Group:
    """Makes the table for one reply. It fits into 80 columns."""
    below = f", below {reply.upstream}" if reply.upstream else ""
    title = Text(f"switch {address}, up {_duration(reply.uptime_s)}{below}", style="table.title")
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for column in ("job", "workers", "slots\nx block", "packets/s\nin, out", "MB/s\nin, out", "again", "state"):
        table.add_column(column, justify="left" if column == "state" else "right")
    notes = []
    for job in reply.jobs:
        rate = rates.get(job.job, {})
        table.add_row(
            str(job.job),
            f"{job.present}/{job.workers}",
            f"{job.slots} x {job.block_size}" + (f" x {job.blocks_per_chunk}" if job.blocks_per_chunk > 1 else ""),
            f"{_short(rate.get('updates', 0) + rate.get('duplicates', 0))}, {_short(rate.get('packets_sent', 0))}",
            f"{_short(rate.get('bytes_received', 0) / 1e6)}, {_short(rate.get('bytes_sent', 0) / 1e6)}",
            f"{job.counters.get('duplicates', 0):,}",
            _state(job),
        )
        if job.aborted:
            notes.append(Text(f"job {job.job} is aborted: {job.aborted}", style="red"))
        elif missing := _missing(job):
            notes.append(Text(f"job {job.job} waits for worker {missing}", style="yellow"))
        if narrow := _widths(job.counters):
            notes.append(Text(f"job {job.job}: {narrow}", style="dim"))
        if lost := job.counters.get("lost_inside", 0):
            notes.append(Text(f"job {job.job}: {_LOST_INSIDE.format(lost)}", style="yellow"))
        if rejected := _kinds(job.rejected):
            notes.append(Text(f"job {job.job} rejected packets: {rejected}"))
    if reply.draining:
        notes.append(Text("draining: no new jobs; it ends with the last one", style="yellow"))
    if not reply.jobs and not reply.assisted:
        notes.append(Text("no jobs"))
    if any(reply.rejected.values()):
        notes.append(Text(f"rejected packets that belong to no job: {_kinds(reply.rejected)}"))
    if lost := reply.counters.get("socket_overflows", 0):
        notes.append(Text(_overflows(lost), style="yellow"))
    notes.append(
        Text(
            f"data ports {', '.join(map(str, reply.data_ports))}; again: packets that were counted already", style="dim"
        )
    )
    return Group(*([table] if reply.jobs or not reply.assisted else [title]), *_assisted(reply), *_ports(reply), *notes)


def _assisted(reply: Any) -> list[Any]:
    """Makes the table of the jobs that are summed elsewhere; none if there are none."""
    if not reply.assisted:
        return []
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for column in ("job", "workers", "joined", "sums", "collisions", "sent on", "expired", "role, for"):
        table.add_column(column, justify="left" if column.startswith("role") else "right")
    for job in reply.assisted:
        counters = job.counters
        table.add_row(
            str(job.job),
            str(job.workers),
            _short(counters["claims"] + counters["joins"]),
            _short(counters["combined"] or counters["results"]),
            *(_short(counters[name]) for name in ("collisions", "passed_on", "expired")),
            f"{job.role}, {getattr(job, 'from')}",
        )
    held, entries = reply.counters.get("entries_held", 0), reply.counters.get("entries", 0)
    explained = Text(
        f"{held:,} of {entries:,} entries are held. joined: updates that an entry took; collisions: another pass had "
        "the entry; sent on: updates that came direct",
        style="dim",
    )
    marks = [
        Text(f"job {job.job}: {marked:,} packets were marked, because a link had a queue: its workers send less", "dim")
        for job in reply.assisted
        if (marked := job.counters["marked"])
    ]
    return [table, *marks, explained]


def _ports(reply: Any) -> list[Any]:
    """Makes the table of a chip's ports; none if there are none."""
    if not reply.ports:
        return []
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for column in ("port", "link", "packets\nin, out", "errors", "dropped\nin, out", "longest\nqueue, kB"):
        table.add_column(column, justify="left" if column == "link" else "right")
    for port in reply.ports:
        told = {name: _short(value) for name, value in port.counters.items()}
        table.add_row(
            str(port.port),
            Text("up", style="green") if port.up else Text("down", style="red"),
            f"{told['packets_received']}, {told['packets_sent']}" if "packets_received" in told else "-",
            told.get("errors", "-"),
            f"{told['dropped_at_ingress']}, {told['dropped_at_egress']}",
            _short(port.counters["longest_queue_bytes"] / 1000),
        )
    return [table]


def record(reply: Any, rates: Mapping[int, Mapping[str, float]]) -> dict[str, Any]:
    """Makes the JSON object for one reply.

    It is the reply as control.proto describes it. Each job also has ``rates``, its counters' growth per second.
    """
    found = MessageToDict(reply, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
    for job in found["jobs"]:
        job["rates"] = rates.get(job["job"], {})
    return found


def _state(job: Any) -> Text:
    if job.aborted:
        return Text("aborted", style="red")
    if job.absent:
        return Text("gathering", style="yellow")
    return Text("running", style="green")


def _short(number: float) -> str:
    """Writes a number with three digits, as 12.5, 480 or 1.25 M."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= 0.9995 * size:
            return f"{number / size:.3g} {unit}"
    return f"{number:.3g}"


def _overflows(lost: int) -> str:
    return (
        f"{lost:,} packets lost because a socket's buffer was full, and sent again: allow larger "
        f"buffers by `sysctl -w net.core.rmem_max={_RECEIVE_BUFFER}` on the switch's host, and start "
        "the switch again"
    )


def _widths(counters: Mapping[str, int]) -> str:
    """How many bytes of words came in each width; empty if all came in 32 bits."""
    bytes_of = {bits: counters.get(f"bytes_of_{bits}_bits", 0) for bits in (32, 16, 8)}
    if not bytes_of[16] and not bytes_of[8]:
        return ""
    return "words received: " + ", ".join(f"{_short(n / 1e6)} MB of {bits} bits" for bits, n in bytes_of.items() if n)


def _missing(job: Any) -> str:
    if job.brief:
        return "(not listed: too many jobs)"
    holders = {member.rank: f"{member.rank} ({member.host}:{member.pid})" for member in job.members}
    return ", ".join(holders.get(rank, f"{rank} (not joined)") for rank in job.missing)


def _kinds(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{kind} {count:,}" for kind, count in sorted(counts.items()) if count)


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"
