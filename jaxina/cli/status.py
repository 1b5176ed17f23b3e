"""`jaxina status`: what a switch is doing, once or live."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from jaxina import config

_CALL_TIMEOUT = 5.0  # seconds
_RECEIVE_BUFFER = 32 << 20  # bytes that the switch asks for, of each socket


def register(app: typer.Typer) -> None:
    app.command("status")(status)


def status(
    switch: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="The switch's control address.")
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Keep it up to date until Ctrl-C.")
    ] = False,
    interval: Annotated[
        float, typer.Option(min=0.5, max=60, help="Seconds between two looks.")
    ] = 1.0,
) -> None:
    """Show a switch's jobs: workers, slots, rates, retransmissions, rejected packets, who is
    missing.
    """
    from jaxina.control.client import SwitchClient

    settings = config.resolve(switch=switch)
    address = settings.switch
    console = Console()
    with SwitchClient(address, _CALL_TIMEOUT, settings.token) as client:
        rates = Rates()
        rates.look(client.status())
        time.sleep(interval)
        view = render(address, reply := client.status(), rates.look(reply))
        if not watch:
            console.print(view)
            return
        with Live(view, console=console, auto_refresh=False) as live:
            try:
                while True:
                    time.sleep(interval)
                    reply = client.status()
                    live.update(render(address, reply, rates.look(reply)), refresh=True)
            except KeyboardInterrupt:
                return


class Rates:
    """Counters' growth per second between two looks."""

    def __init__(self) -> None:
        self._before: dict[int, dict[str, int]] = {}
        self._at = -1.0
        self._rates: dict[int, dict[str, float]] = {}

    def look(self, reply: Any) -> dict[int, dict[str, float]]:
        """Per job and counter; 0 for what is new. A reply that the switch gave before changes
        nothing.
        """
        passed = reply.uptime_s - self._at
        if passed == 0:
            return self._rates
        now = {job.job: dict(job.counters) for job in reply.jobs}
        self._rates = {
            job: {
                name: (value - self._before[job].get(name, 0)) / passed
                if job in self._before and passed > 0
                else 0.0
                for name, value in counters.items()
            }
            for job, counters in now.items()
        }
        self._before, self._at = now, reply.uptime_s
        return self._rates


def render(address: str, reply: Any, rates: Mapping[int, Mapping[str, float]]) -> Group:
    """The table of one look."""
    table = Table(
        title=f"switch {address}, up {_duration(reply.uptime_s)}, "
        f"data ports {', '.join(map(str, reply.data_ports))}"
    )
    for column in (
        "job",
        "workers",
        "slots",
        "block",
        "packets/s in",
        "packets/s out",
        "MB/s in",
        "MB/s out",
        "retransm.",
        "rejected",
        "missing",
        "state",
    ):
        table.add_column(
            column, justify="left" if column in ("rejected", "missing", "state") else "right"
        )
    for job in reply.jobs:
        rate = rates.get(job.job, {})
        table.add_row(
            str(job.job),
            f"{job.present}/{job.workers}",
            str(job.slots),
            f"{job.block_size} x {job.blocks_per_chunk}",
            f"{rate.get('updates', 0) + rate.get('duplicates', 0):,.0f}",
            f"{rate.get('packets_sent', 0):,.0f}",
            f"{rate.get('bytes_received', 0) / 1e6:,.1f}",
            f"{rate.get('bytes_sent', 0) / 1e6:,.1f}",
            f"{job.counters.get('duplicates', 0):,}",
            _kinds(job.rejected),
            _missing(job),
            _state(job),
        )
    lines = [table]
    if not reply.jobs:
        lines.append(Text("no jobs"))
    if any(reply.rejected.values()):
        lines.append(Text(f"rejected, of no job: {_kinds(reply.rejected)}"))
    if lost := reply.counters.get("socket_overflows", 0):
        lines.append(Text(_overflows(lost), style="yellow"))
    return Group(*lines)


def _state(job: Any) -> Text:
    if job.aborted:
        return Text(f"aborted: {job.aborted}", style="red")
    if job.absent:
        return Text("gathering", style="yellow")
    return Text("running", style="green")


def _overflows(lost: int) -> str:
    return (
        f"{lost:,} packets lost because a socket's buffer was full, and sent again: allow larger "
        f"buffers by `sysctl -w net.core.rmem_max={_RECEIVE_BUFFER}` on the switch's host, and start "
        "the switch again"
    )


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
