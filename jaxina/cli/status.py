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
        float, typer.Option(min=0.1, max=60, help="Seconds between two looks.")
    ] = 1.0,
) -> None:
    """Show a switch's jobs: workers, slots, rates, retransmissions, rejected packets, who is
    missing.
    """
    from jaxina.control.client import SwitchClient

    address = config.resolve(switch=switch).switch
    console = Console()
    with SwitchClient(address, _CALL_TIMEOUT) as client:
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
        self._at = 0.0

    def look(self, reply: Any) -> dict[int, dict[str, float]]:
        """Per job and counter; 0 for what is new."""
        passed = reply.uptime_s - self._at
        now = {job.job: dict(job.counters) for job in reply.jobs}
        rates = {
            job: {
                name: (value - self._before[job].get(name, 0)) / passed
                if job in self._before and passed > 0
                else 0.0
                for name, value in counters.items()
            }
            for job, counters in now.items()
        }
        self._before, self._at = now, reply.uptime_s
        return rates


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
        joined = sum(member.state == "joined" for member in job.members)
        table.add_row(
            str(job.job),
            f"{joined}/{job.workers}",
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
    return Group(*lines)


def _state(job: Any) -> Text:
    if job.aborted:
        return Text(f"aborted: {job.aborted}", style="red")
    if len(job.members) < job.workers:
        return Text("gathering", style="yellow")
    return Text("running", style="green")


def _missing(job: Any) -> str:
    holders = {member.rank: f"{member.rank} ({member.host}:{member.pid})" for member in job.members}
    return ", ".join(holders.get(rank, f"{rank} (not joined)") for rank in job.missing)


def _kinds(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{kind} {count:,}" for kind, count in sorted(counts.items()) if count)


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"
