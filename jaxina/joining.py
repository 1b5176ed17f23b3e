"""How the processes of a job come to know each other, and how one is told that it forgot to."""

from __future__ import annotations

import atexit
import os
from types import ModuleType

import jax

from jaxina import config
from jaxina._jax_compat import versions
from jaxina.control.exchange import exchange, own_host_towards
from jaxina.control.roll_call import Answer, Roommates, answer_roll
from jaxina.control.store import JaxStore
from jaxina.control.topology import JaxTopology, this_place
from jaxina.errors import InvalidArgumentError, NotInitializedError

# Where launchers say how many processes they have started.
_LAUNCHERS = {
    "SLURM_STEP_NUM_TASKS": "srun",
    "OMPI_COMM_WORLD_SIZE": "Open MPI's mpirun",
    "PMI_SIZE": "an MPI launcher",
    "WORLD_SIZE": "torchrun",
}


Endpoint = tuple[str, int, int]  # numeric host, port, secret

_roommates: Roommates | None = None  # where we were launched


def ended_processes() -> set[int]:
    """The processes that are known to have ended, by number. Only launched processes know."""
    return _roommates.ended() if _roommates is not None else set()


def forget_in_child() -> None:
    """After a fork, in the child."""
    global _roommates
    if _roommates is not None:
        _roommates.forget()
        _roommates = None


def jax_store() -> JaxStore:
    return JaxStore(_processes().client())


def backend_started() -> bool:
    """Whether JAX has looked for devices."""
    return _processes().backend_started()


def own_host(processes: int) -> str:
    """The numeric address of this host, as the other processes reach it."""
    return own_host_towards(_processes().coordinator_address() if processes > 1 else None)


def exchange_endpoints(topology: JaxTopology, incarnation: int, own: tuple[int, int], timeout: float) -> list[Endpoint]:
    """Where every process takes messages, by process; `own` is this one's port and secret."""
    here = (own_host(topology.processes), *own)
    return [
        (host, port, secret)
        for host, port, secret in exchange(
            *(jax_store(), f"jaxina/{incarnation}/endpoints", topology.process, here, topology.processes),
            *(timeout, ended_processes),
            "sends no messages, though others do: every process must run the same program; one that computes long before "
            "needs a longer JAXINA_TIMEOUT",
        )
    ]


def tell_obstacles(topology: JaxTopology, timeout: float, own: str | None) -> list[str | None]:
    """What keeps XLA's own collectives from jaxina, by process; `own` in this one. Waits for all.

    Raises:
      NeverJoinedError: a process has not called `jaxina.init` within `timeout` seconds.
      WorkerLostError: one has ended.
    """
    return exchange(
        *(jax_store(), "jaxina/route", topology.process, own, topology.processes, timeout, ended_processes),
        f"has not called jaxina.init() within {timeout:g} s: every process of the job must, or JAXINA_JOIN_TIMEOUT be longer",
    )


def _processes() -> ModuleType:
    """What JAX knows of the other processes.

    Raises:
      InvalidArgumentError: this JAX has other private names than jaxina expects.
    """
    try:
        from jaxina._jax_compat import processes
    except ImportError as error:
        raise InvalidArgumentError(
            f"{versions.found()} is not what jaxina expects, so its processes do not find each other: {error}. {versions.tested()}"
        ) from error
    return processes


def join_processes(configuration: config.Configuration) -> JaxTopology:
    """Initialises jax.distributed if we were launched and nobody did."""
    global _roommates
    rank, count, coordinator = configuration.rank, configuration.processes, configuration.coordinator
    if (
        not jax.distributed.is_initialized()
        and (coordinator is not None and rank is not None and count is not None)
        and count > 1
    ):
        if _processes().backend_started():
            raise InvalidArgumentError(
                "jaxina.init() came after the first use of JAX's devices: call it before anything "
                "that asks for devices or computes, so that the processes find each other"
            )
        patience = configuration.join_timeout
        me = Answer(rank, count, this_place(), configuration.shared, patience)
        service, _roommates = answer_roll(coordinator, me)
        # Before jax.distributed's own handler, which then waits for all others: they must not wait for this process.
        atexit.register(_roommates.end)
        _processes().join(service, count, rank, patience)
    if not jax.distributed.is_initialized():
        _refuse_to_be_alone()
        return JaxTopology(0, 1)
    return JaxTopology(*_processes().this_process())


def _refuse_to_be_alone() -> None:
    """Raises InvalidArgumentError if a launcher has started several processes that do not know of each other."""
    for variable, launcher in _LAUNCHERS.items():
        count = os.environ.get(variable, "")
        if count.isdigit() and int(count) > 1:
            raise InvalidArgumentError(
                f"{variable}={count}: {launcher} started {count} processes, but each would be a job of its own, since "
                "jax.distributed.initialize() was not called before jaxina.init(). Call it; or, if the processes shall "
                f"not sum together, unset {variable}"
            )


def refuse_without_init() -> None:
    """Raises NotInitializedError if `jaxina run` started this process with others and it computes alone.

    To be called when a program is compiled while no job is running.
    """
    count = os.environ.get(config.variable("processes"), "")
    if count.isdigit() and int(count) > 1 and not jax.distributed.is_initialized():
        raise NotInitializedError(
            f"{config.variable('processes')}={count}: `jaxina run` started {count} processes, but this one computes "
            "alone. Call jaxina.init() before anything that computes"
        )
