"""How the processes of a job find each other, and the errors for a process that did not look for the others."""

from __future__ import annotations

import atexit
import os
from types import ModuleType

import jax

from jaxina import config
from jaxina._jax_compat import versions
from jaxina.control.exchange import exchange
from jaxina.control.interfaces import own_host_towards
from jaxina.control.roll_call import Answer, CoordinatorConnection, answer_roll
from jaxina.control.store import JaxStore
from jaxina.control.tls import tls_of
from jaxina.control.topology import JaxTopology, this_place
from jaxina.errors import InvalidArgumentError, NotInitializedError

# The variables in which launchers say how many processes they have started.
_LAUNCHERS = {
    "SLURM_STEP_NUM_TASKS": "srun",
    "OMPI_COMM_WORLD_SIZE": "Open MPI's mpirun",
    "PMI_SIZE": "an MPI launcher",
    "WORLD_SIZE": "torchrun",
}


Endpoint = tuple[str, int, int]  # numeric host, port, secret

_coordinator_connection: CoordinatorConnection | None = None  # only in a process that `jaxina run` launched


def ended_processes() -> set[int]:
    """The numbers of the processes that are known to have ended. Empty if this process was not launched."""
    return _coordinator_connection.ended() if _coordinator_connection is not None else set()


def tell_coordinator(message: str) -> None:
    """Tells the coordinator what the watchdog found, for `jaxina status`. Does nothing if there is no coordinator."""
    if _coordinator_connection is not None:
        _coordinator_connection.tell(message)


def forget_in_child() -> None:
    """Drops the parent's connection to the coordinator. To be called in the child, after a fork."""
    global _coordinator_connection
    if _coordinator_connection is not None:
        _coordinator_connection.forget()
        _coordinator_connection = None


def jax_store() -> JaxStore:
    """The key-value store of `jax.distributed`."""
    return JaxStore(_distributed().client())


def backend_started() -> bool:
    """Whether JAX's backend has started, that is, whether JAX has looked for devices."""
    return _distributed().backend_started()


def own_host(processes: int, interface: str | None) -> str:
    """The numeric address at which the other processes reach this one; `interface` is the setting."""
    return own_host_towards(_distributed().coordinator_address() if processes > 1 else None, interface)


def gloo_at(host: str) -> None:
    """Lets gloo listen at this address, not at the one that this host's name has. That may be the loopback address."""
    _distributed().gloo_at(host)


def exchange_endpoints(topology: JaxTopology, incarnation: int, own: Endpoint, timeout: float) -> list[Endpoint]:
    """Exchanges where each process takes messages.

    Args:
      topology: this process's number, and how many there are.
      incarnation: how often `jaxina.init` has succeeded in this process.
      own: this process's endpoint.
      timeout: seconds to wait for the others.

    Returns:
      The endpoint of each process, by number.

    Raises:
      NeverJoinedError: a process did not tell its endpoint within `timeout` seconds.
      WorkerLostError: a process has ended.
    """
    return [
        (host, port, secret)
        for host, port, secret in exchange(
            *(jax_store(), f"jaxina/{incarnation}/endpoints", topology.process, own, topology.processes),
            *(timeout, ended_processes),
            f"did not reach the others' first exchange of messages within {timeout:g} s. Every process must run the "
            "same program. If this one computes long before, raise JAXINA_TIMEOUT",
        )
    ]


def exchange_obstacles(topology: JaxTopology, timeout: float, own: str | None) -> list[str | None]:
    """Exchanges, for each process, what prevents XLA's own collectives from coming to jaxina. Waits for all processes.

    Args:
      topology: this process's number, and how many there are.
      timeout: seconds to wait for the others.
      own: what prevents it in this process; None if nothing does.

    Returns:
      The same of each process, by number.

    Raises:
      NeverJoinedError: a process has not called `jaxina.init` within `timeout` seconds.
      WorkerLostError: a process has ended.
    """
    return exchange(
        *(jax_store(), "jaxina/route", topology.process, own, topology.processes, timeout, ended_processes),
        f"did not call jaxina.init() within {timeout:g} s. Every process of the job must call it. If this one starts "
        "slowly, raise JAXINA_JOIN_TIMEOUT",
    )


def _distributed() -> ModuleType:
    """The module that asks JAX about the other processes.

    Raises:
      InvalidArgumentError: this JAX has other private names than jaxina expects.
    """
    try:
        from jaxina._jax_compat import distributed
    except ImportError as error:
        raise InvalidArgumentError(
            f"{versions.found()} is not what jaxina expects, so the processes cannot find each other: {error}. "
            f"{versions.tested()}"
        ) from error
    return distributed


def join_processes(configuration: config.Configuration) -> JaxTopology:
    """Initialises `jax.distributed` if this process was launched and nobody has done so.

    Returns:
      This process's number, and how many processes there are.

    Raises:
      InvalidArgumentError: JAX's backend was started too early, or a launcher started processes that do not know of
        each other.
      NeverJoinedError: not all processes came, or no coordinator answers.
      RankTakenError: two processes have the same rank.
      MismatchError: the processes have different settings.
      AuthenticationError: only one end uses TLS, or one does not accept the other's certificate.
    """
    global _coordinator_connection
    rank, count, coordinator = configuration.rank, configuration.processes, configuration.coordinator
    if (
        not jax.distributed.is_initialized()
        and (coordinator is not None and rank is not None and count is not None)
        and count > 1
    ):
        if _distributed().backend_started():
            raise InvalidArgumentError(
                "jaxina.init() came after the first use of JAX's devices: call it before anything "
                "that asks for devices or computes, so that the processes find each other"
            )
        patience = configuration.join_timeout
        me = Answer(rank, count, this_place(), configuration.shared, patience)
        service, _coordinator_connection = answer_roll(coordinator, me, tls_of(configuration))
        # Runs before JAX's own exit handler, which JAX registered earlier, when it was imported. That one ends the
        # backend, which may take a while; the others must not wait for this process meanwhile.
        atexit.register(_coordinator_connection.end)
        _distributed().join(service, count, rank, patience)
    if not jax.distributed.is_initialized():
        _refuse_to_be_alone()
        return JaxTopology(0, 1)
    return JaxTopology(*_distributed().this_process())


def _refuse_to_be_alone() -> None:
    """Raises InvalidArgumentError if a launcher has started several processes that do not know of each other.

    Each would sum alone, as a job of one process, and nobody would notice.
    """
    for variable, launcher in _LAUNCHERS.items():
        count = os.environ.get(variable, "")
        if count.isdigit() and int(count) > 1:
            raise InvalidArgumentError(
                f"{variable}={count}: {launcher} started {count} processes, but each would be a job of its own, since "
                "jax.distributed.initialize() was not called before jaxina.init(). Call it. If the processes are not "
                f"meant to sum together, unset {variable} instead"
            )


def refuse_without_init() -> None:
    """Checks that a process that ``jaxina run`` started with others does not compute alone.

    To be called when a program is compiled while no job is running.

    Raises:
      NotInitializedError: it does.
    """
    count = os.environ.get(config.variable("processes"), "")
    if count.isdigit() and int(count) > 1 and not jax.distributed.is_initialized():
        raise NotInitializedError(
            f"{config.variable('processes')}={count}: `jaxina run` started {count} processes, but this one computes "
            "alone. Call jaxina.init() before anything that computes"
        )
