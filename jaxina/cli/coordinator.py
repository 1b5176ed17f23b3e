"""``jaxina coordinator``, where the processes of a job find each other; and the one that ``jaxina run`` starts."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from jaxina import config
from jaxina.cli import placement
from jaxina.cli.children import die_with
from jaxina.control.coordinator import address_of, coordinate, listen, make_room_for
from jaxina.control.interfaces import resolve_bind
from jaxina.control.roll_call import look_at_job
from jaxina.errors import JaxinaError, NeverJoinedError

if TYPE_CHECKING:
    from jaxina.control.tls import Tls

_ANSWER_WITHIN = 5.0  # seconds
_LOOK_EVERY = 0.1
_SAY_AFTER = 2.0


def register(app: typer.Typer) -> None:
    app.command("coordinator")(coordinator)


def coordinator(
    count: Annotated[
        int,
        typer.Option("-n", "--workers", min=1, max=config.MAX_WORKERS, help="Number of processes of the job."),
    ],
    bind: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT",
            help="Where to listen: an address of this host that all processes can reach. HOST may be the name of a "
            "network interface, or a subnet.",
        ),
    ] = "127.0.0.1:0",
) -> None:
    """Let the processes of one job find each other. `jaxina run` starts a coordinator of its own."""
    from jaxina.control.tls import tls_of

    tls = tls_of(config.resolve())
    with listen(resolve_bind(bind)) as listener:
        print(
            f"JAXINA_COORDINATOR={address_of(listener)} JAXINA_PROCESSES={count}: set these in each process, and its "
            "JAXINA_RANK",
            flush=True,
        )
        with contextlib.suppress(KeyboardInterrupt):
            coordinate(listener, count, make_room_for(count), tls)


@contextlib.contextmanager
def private_coordinator(bind: str, count: int, tls: Tls | None) -> Iterator[str]:
    """Runs a coordinator in a process of its own, while the context lasts.

    It must be started before this process has threads, because the coordinator is a forked copy of this process.

    Args:
      bind: HOST:PORT to listen at; port 0 picks a free one.
      count: how many processes the job has.
      tls: the certificate that it shows; None: the processes call without TLS.

    Yields:
      The coordinator's address, HOST:PORT.

    Raises:
      InvalidArgumentError: it cannot listen at `bind`.
      SystemCallError: the hard limit on open files is too low.
    """
    where = placement.current.get()
    parent = os.getpid()
    listener = where.at_first_worker(lambda: listen(bind))
    with listener:
        address = address_of(listener)
        callers = make_room_for(count)
        child = os.fork()
        if child == 0:
            _be_coordinator(listener, count, callers, tls, parent)
    try:
        yield address
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def wait_for_other_hosts(address: str, tls: Tls | None, patience: float, say: Callable[[str], None]) -> None:
    """Waits until no process of a job exists that needs the coordinator, or until Ctrl-C.

    JAX aborts each process whose service of jax.distributed has gone, also one that saves its last checkpoint.

    Args:
      address: the coordinator's, HOST:PORT.
      tls: this process's certificate; None: it calls without TLS.
      patience: how many seconds to wait at most.
      say: is called once if that takes a while.
    """
    began, said = time.monotonic(), False
    with contextlib.suppress(KeyboardInterrupt, NeverJoinedError):  # without a coordinator there is nothing to wait for
        while True:
            job = look_at_job(address, _ANSWER_WITHIN, tls)
            waited = time.monotonic() - began
            if len(job.here) == len(job.ended) - len(job.leaving) or waited >= patience:
                return
            if waited > _SAY_AFTER and not said:
                say("waiting for the workers of the other hosts, which need this host's coordinator until they end")
                said = True
            time.sleep(_LOOK_EVERY)


def _be_coordinator(listener: socket.socket, count: int, callers: int, tls: Tls | None, parent: int) -> NoReturn:
    """Runs the coordinator in the forked child. It never returns."""
    code, usual = 1, os.dup(2)
    try:
        os.setsid()  # so that Ctrl-C does not end the coordinator, which the workers need until their own end
        die_with(parent)
        with open(os.devnull, "w") as nowhere:  # JAX's service prints an error for each worker that dies
            os.dup2(nowhere.fileno(), 1)
            os.dup2(nowhere.fileno(), 2)
        placement.current.get().enter_first_worker()  # where the service's own socket must be
        coordinate(listener, count, callers, tls)
    except JaxinaError:
        code = 0  # the workers have been told
    except BaseException as error:
        os.write(usual, f"jaxina run: the coordinator failed: {error!r}\n".encode())
    finally:
        os._exit(code)
