"""``jaxina keeper``: keeps an elastic team together."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated

import typer

from jaxina import config
from jaxina.cli.common_options import credentials, host_in, log_to_terminal
from jaxina.cli.signals import Signals


def register(app: typer.Typer) -> None:
    app.command("keeper")(keeper)


def keeper(
    members: Annotated[
        int,
        typer.Option("-n", "--members", min=1, max=config.MAX_WORKERS, help="Number of members that begin together."),
    ],
    least: Annotated[int, typer.Option(min=1, help="With fewer members than this, the team waits for others.")] = 1,
    bind: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT",
            help="Where to listen: an address of this host that all members can reach. HOST may be the name of a "
            "network interface, or a subnet.",
        ),
    ] = "127.0.0.1:0",
    patience: Annotated[
        float, typer.Option(min=0, help="Seconds to wait for members, at the start and when too few are left.")
    ] = 60.0,
    heartbeat_timeout: Annotated[
        float, typer.Option(min=0.1, help="Seconds of silence after which a member is taken for dead.")
    ] = 20.0,
    timeout: Annotated[
        float,
        typer.Option(
            min=0.1,
            help="Seconds that a member has to get the state, and to compute a step after another one has.",
        ),
    ] = 300.0,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The team's token is in FILE. If not given, it is JAXINA_TOKEN, if set."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Log warnings only.")] = False,
) -> None:
    """Keep an elastic team together until its steps are done: who takes part in a step, and which steps count.

    It must outlive the members. `JAXINA_KEEPER` tells them its address. The exit code is 1 if an error ended the team.
    """
    from jaxina.control.interfaces import resolve_bind
    from jaxina.elastic.keeper import Keeper
    from jaxina.elastic.membership import Rules
    from jaxina.elastic.roster import Roster

    host_in("--bind", bind)
    token, tls = credentials(token_file)
    rules = Rules(members, least, patience, timeout, heartbeat_timeout)
    log_to_terminal(quiet)
    with Signals((signal.SIGINT, signal.SIGTERM)) as signals:
        over = Keeper(Roster(rules), resolve_bind(bind), token, tls, lambda: signals.send(signal.SIGTERM))
        with over as running:
            running.ended.add_done_callback(lambda _: signals.send(signal.SIGTERM))
            print(f"JAXINA_KEEPER={running.address}: set this for each member", flush=True)
            signals.wait()
    if running.error is not None:
        raise running.error
    running.ended.result()
