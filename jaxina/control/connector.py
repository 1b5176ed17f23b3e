"""Finds the aggregator of a group of devices. The engine asks for it when the group first sums."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import logging
import secrets
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from jaxina._native import GroupConfig, JobShape
from jaxina.config import Configuration
from jaxina.control.data_plane import Terms
from jaxina.control.rendezvous import Agreement, Presence, Rendezvous
from jaxina.control.servers import Servers, Switch
from jaxina.control.store import Store
from jaxina.control.topology import Topology, this_place
from jaxina.errors import AuthenticationError, InvalidArgumentError, JobRejectedError

_log = logging.getLogger(__name__)

Group = tuple[int, ...]


class Aggregators(Protocol):
    """A kind of aggregator, as the connector uses it. The workers of a job are the processes of a group.

    Attributes:
      switches: the switches through which this process sends updates on their way to servers. The leaders of its groups
        must know them.
    """

    switches: Sequence[Switch]

    def arrange(self, processes: Sequence[Presence], devices: int) -> Agreement:
        """Sets up a job with one worker per process. Called in the leader only, which joins right after.

        Args:
          processes: the processes of the group, in the order of the workers.
          devices: how many devices the group has.

        Returns:
          What all processes must know to join, as values that JSON can hold.
        """
        ...

    def join(self, group: Group, worker: int, workers: int, agreement: Agreement) -> Servers:
        """Joins the job as `worker` of `workers`. Called once per process and group.

        Returns:
          Where datagrams go; empty if the aggregator takes none.
        """
        ...

    def connect_queue_pairs(self, agreement: Agreement, worker: int, end: tuple[Any, ...]) -> tuple[Any, ...]:
        """For RDMA: tells the switch this worker's end of the queue pairs, and returns the switch's end.

        In a ring it tells the other workers, waits until all have told theirs, and returns two ends: the next worker's
        and the previous one's. The fields are those of `jaxina.control.data_plane.QueuePairs`.
        """
        ...

    def end(self, group: Group, code: str, message: str) -> None:
        """Ends the group's job for all its processes, for a reason that only this process knows."""
        ...

    def leave(self, failure: str | None) -> None:
        """Leaves all jobs. `failure` says why this process ends; None if nothing failed."""
        ...


class EmbeddedAggregators:
    """Aggregators in shared memory of this host. The native transport creates, attaches and removes the segments."""

    switches: Sequence[Switch] = ()

    def arrange(self, processes: Sequence[Presence], devices: int) -> Agreement:
        machines = {presence.place.machine: presence.place.host for presence in processes}
        if len(machines) > 1:
            raise InvalidArgumentError(
                "the embedded aggregator is in shared memory of one host, but the workers run on "
                f"{', '.join(machines.values())}: use aggregator='udp' with a switch"
            )
        return {
            "segment": f"jaxina-{secrets.token_hex(8)}",
            "job": secrets.randbits(32),
            "secret": secrets.randbits(64),
            "address": "",
            **dataclasses.asdict(Terms()),
        }

    def join(self, group: Group, worker: int, workers: int, agreement: Agreement) -> Servers:
        """Does nothing: a process joins by attaching to the segment."""
        return Servers()

    def connect_queue_pairs(self, agreement: Agreement, worker: int, end: tuple[Any, ...]) -> tuple[Any, ...]:
        raise InvalidArgumentError("shared memory has no queue pairs")

    def end(self, group: Group, code: str, message: str) -> None:
        """Does nothing: the native transport writes the error into the segment."""

    def leave(self, failure: str | None) -> None:
        """Does nothing: the native transport detaches, and notices by itself when a process has died."""


class Connector:
    """The engine's connector: a callable. Several threads may call it at once, one per group."""

    def __init__(
        self,
        configuration: Configuration,
        topology: Topology,
        aggregators: Aggregators,
        store: Callable[[], Store],
        ended: Callable[[], set[int]],
        incarnation: int,
        host: str = "",
    ):
        self._configuration = configuration
        self._topology = topology
        self._aggregators = aggregators
        self._store = store
        self._ended = ended
        self._incarnation = incarnation
        self._host = host  # the numeric address at which other processes reach this one
        self._place = this_place()
        self._closing = threading.Event()

    def __call__(self, group: Sequence[int]) -> GroupConfig:
        """Makes this process's GroupConfig for a group. It waits until all processes of the group have come.

        The engine calls it once per group.

        Args:
          group: the global ids of the group's devices.

        Raises:
          JaxinaError: the group cannot sum. The class and the message say why.
        """
        devices = tuple(group)
        try:
            return self._enter(devices)
        except AuthenticationError as error:  # the engine has no code for it
            _log.debug("group %s: %s", devices, error)
            raise JobRejectedError(error.message) from error
        except BaseException as error:
            _log.debug("group %s: %s", devices, error)
            raise

    def ended(self, group: Sequence[int], code: str, message: str) -> None:
        """Ends the group for all its processes. To be called when it ended here for a reason that others cannot see."""
        self._aggregators.end(tuple(group), code, message)

    def _enter(self, group: Group) -> GroupConfig:
        owners = self._topology.owners(group)
        processes = list(dict.fromkeys(owners))  # worker i is processes[i]
        worker = processes.index(self._topology.process)
        shape = self._configuration.shape(devices=len(group), workers=len(processes))
        local = [index for index, owner in enumerate(owners) if owner == self._topology.process]
        if len(processes) == 1:
            return self._config(shape, worker, local, job=0, secret=0)
        agreement = self._meet(group, processes)
        servers = self._aggregators.join(group, worker, len(processes), agreement)
        job = agreement["job"]
        _log.debug("group %s: worker %d of %d, job %s", group, worker, len(processes), job)
        if agreement["whole_chunks"]:
            shape = self._configuration.shape(len(group), len(processes), whole_chunks=True)
        config = self._config(shape, worker, local, job, agreement["secret"])
        self._choose_transport(config, agreement, worker, servers)
        return config

    def _config(self, shape: JobShape, worker: int, local: list[int], job: int, secret: int) -> GroupConfig:
        configuration = self._configuration
        return GroupConfig(
            shape=shape,
            worker=worker,
            local=local,
            job=job,
            secret=secret,
            join_timeout_s=configuration.join_timeout,
            collective_timeout_s=configuration.timeout,
        )

    def _choose_transport(self, config: GroupConfig, agreement: Agreement, worker: int, servers: Servers) -> None:
        configuration = self._configuration
        exchange = functools.partial(self._aggregators.connect_queue_pairs, agreement, worker)
        # Each worker has a seed of its own: if all dropped the same packets, losses would not be independent.
        loss, seed = configuration.loss, (configuration.loss_seed + worker) % 2**64
        address, checksums = agreement["address"], agreement["checksums"]
        if configuration.aggregator == "embedded":
            config.use_embedded(agreement["segment"])
        elif configuration.aggregator in ("udp", "direct", "atp"):
            config.use_udp(
                servers.addresses,
                checksums,
                at_workers=servers.at_workers,
                switches=servers.switches,
                first_window=servers.first_window,
                workers_per_link=servers.workers_per_link,
                host="" if configuration.interface is None else self._host,
                key=servers.key,
                loss=loss,
                loss_seed=seed,
            )
        elif configuration.aggregator == "netreduce" and configuration.device is not None:
            config.use_verbs_ring(
                configuration.device,
                exchange,
                has_switch=configuration.uses_switch,
                longest_wait_s=configuration.timeout,
            )
        elif configuration.aggregator == "netreduce":
            config.use_ring(
                servers.own_host,
                exchange,
                has_switch=configuration.uses_switch,
                loss=loss,
                loss_seed=seed,
            )
        elif configuration.aggregator == "roce":
            config.use_roce(address, exchange, checksums, loss=loss, loss_seed=seed)
        else:
            assert configuration.device is not None
            config.use_verbs(configuration.device, exchange)

    def _meet(self, group: Group, processes: Sequence[int]) -> Agreement:
        name = hashlib.sha256(repr(group).encode()).hexdigest()[:16]
        rendezvous = Rendezvous(
            self._store(),
            f"jaxina/{self._incarnation}/{name}",
            processes,
            self._configuration.timeout,
            self._closing.is_set,
            self._ended,
        )
        shared, switches = self._configuration.shared, self._aggregators.switches
        me = Presence(self._topology.process, self._place, shared, switches)
        return rendezvous.meet(me, functools.partial(self._aggregators.arrange, devices=len(group)))

    def interrupt(self) -> None:
        """Ends the waits that are in progress."""
        self._closing.set()

    def close(self, failure: str | None) -> None:
        """Leaves all jobs; see `Aggregators.leave`."""
        self._aggregators.leave(failure)
