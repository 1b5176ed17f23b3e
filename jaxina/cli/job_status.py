"""``jaxina status --coordinator``: shows a job's processes, and what its watchdog found."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import time
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from jaxina.control.roll_call import JobView, look_at_job

if TYPE_CHECKING:
    from jaxina.control.tls import Tls

_CALL_TIMEOUT = 5.0  # seconds


def show(address: str, watch: bool, interval: float, as_json: bool, tls: Tls | None) -> None:
    """Prints the job of the coordinator at `address`, once or continuously.

    Raises:
      NeverJoinedError: no coordinator answers there.
      AuthenticationError: only one end uses TLS, or one does not accept the other's certificate.
    """
    looks = itertools.count() if watch else range(1)
    console = Console()
    with contextlib.suppress(KeyboardInterrupt):
        if as_json:
            for number in looks:
                time.sleep(interval if number else 0)
                print(json.dumps(dataclasses.asdict(look_at_job(address, _CALL_TIMEOUT, tls))), flush=True)
            return
        with Live(console=console, auto_refresh=False) if watch else contextlib.nullcontext() as live:
            for number in looks:
                time.sleep(interval if number else 0)
                view = render(address, look_at_job(address, _CALL_TIMEOUT, tls))
                if live is None:
                    console.print(view)
                else:
                    live.update(view, refresh=True)


def render(address: str, view: JobView) -> Group:
    """Makes the table of a job."""
    title = Text(f"job of coordinator {address}, {view.processes} processes", style="table.title")
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("rank", justify="right")
    table.add_column("where")
    table.add_column("state")
    for rank in range(view.processes):
        state = (
            Text("has not come", style="yellow")
            if rank not in view.here
            else Text("ended", style="dim")
            if rank in view.ended
            else Text("running", style="green")
        )
        table.add_row(str(rank), view.here.get(rank, "-"), state)
    late = Text(f"{view.late_s:.0f} s ago: {view.late}", style="yellow") if view.late else Text("nothing is late")
    return Group(table, late)
