"""The coordinator, where the processes of a job find each other: the roll call, then the service of jax.distributed.

It is a process of its own. If it were part of a worker, that worker's death would end all others: JAX ends every
process whose service has gone.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

from jaxina._jax_compat import processes as jax_processes
from jaxina.config import split_address
from jaxina.control.interfaces import described
from jaxina.control.open_files import make_room
from jaxina.control.roll import CALLERS, Roll
from jaxina.errors import InvalidArgumentError, SystemCallError

if TYPE_CHECKING:
    from jaxina.control.tls import Tls

_TRIES = 5  # to start the service: a port that was free a moment ago may be taken
_BACKLOG = 1024
_FILES_OF_SERVICE = 16  # besides its connections, and with one caller


def listen(address: str) -> socket.socket:
    """Makes a socket that listens at HOST:PORT. Port 0 picks a free one.

    Raises:
      InvalidArgumentError: it cannot listen there.
    """
    host, port = split_address(address)
    try:
        return socket.create_server((host, port), family=_family(host), backlog=_BACKLOG)
    except OSError as error:
        raise InvalidArgumentError(
            f"the coordinator cannot listen at {described(address)}: {error.strerror}. Give an address of this "
            "host and a free "
            "port"
        ) from error


def address_of(listener: socket.socket) -> str:
    """The address at which the socket listens, HOST:PORT."""
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def make_room_for(processes: int) -> int:
    """Raises the limit on open files for the coordinator of so many processes. To be called in it or in its parent.

    Returns:
      How many callers it can have that have said nothing yet.

    Raises:
      SystemCallError: the hard limit is too low.
    """
    # Each process has a connection to the coordinator, and one to the service.
    return 1 + make_room("the coordinator", 2 * processes + _FILES_OF_SERVICE, processes + CALLERS)


def coordinate(listener: socket.socket, processes: int, callers: int, tls: Tls | None = None) -> None:
    """Serves one job. It returns only by an error.

    Args:
      listener: the socket at which the processes call.
      processes: how many processes the job has.
      callers: what `make_room_for` returned.
      tls: this process's certificate; None: the processes call without TLS.

    Raises:
      NeverJoinedError: not all processes came. Those that came have been told.
      MismatchError: the processes have different settings. They have been told.
      SystemCallError: the service of jax.distributed cannot be started.
    """
    services: list[Any] = []  # keeps the service alive, which ends with its last reference

    def serve() -> str:
        address, service = _start_service(address_of(listener), processes)
        services.append(service)
        return address

    roll = Roll(listener, processes, serve, None if tls is None else tls.of_listener, callers)
    roll.call()
    roll.stay()


def _start_service(beside: str, processes: int) -> tuple[str, Any]:
    """Starts the service of jax.distributed, at a free port of the host of `beside`. Returns its address and itself."""
    host, _ = split_address(beside)
    why: Exception | None = None
    for _ in range(_TRIES):
        with socket.create_server((host, 0), family=_family(host)) as free:
            address = address_of(free)
        try:
            return address, jax_processes.host_service(address, processes)
        except RuntimeError as error:
            why = error
    raise SystemCallError(f"the service of jax.distributed cannot be started on {host}: {why}")


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
