"""What the engine asks when a group of devices first sums together: where is our aggregator?"""

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
from jaxina.control.store import Store
from jaxina.control.topology import Topology, this_place
from jaxina.errors import InvalidArgumentError

_log = logging.getLogger(__name__)

Group = tuple[int, ...]


class Aggregators(Protocol):
    """A kind of aggregator, as the connector uses it. Its workers are the processes of a group."""

    def arrange(self, processes: Sequence[Presence], devices: int) -> Agreement:
        """Called in the leader: sets a job up with one worker per process, for a group of so many
        devices; returns what all must know, fit for JSON. The leader joins at once.
        """
        ...

    def join(self, group: Group, worker: int, workers: int, agreement: Agreement) -> None:
        """Called once per process and group: this process is `worker` of `workers`."""
        ...

    def connect_queue_pairs(self, agreement: Agreement, worker: int, end: tuple[Any, ...]) -> tuple[Any, ...]:
        """For RDMA: gives the switch this worker's end of the queue pairs, returns the switch's. The
        fields are those of `data_plane.QueuePairs`.
        """
        ...

    def end(self, group: Group, code: str, message: str) -> None:
        """Ends the group's job for all its processes, for a reason that only this one has seen."""
        ...

    def leave(self, failure: str | None) -> None:
        """Leaves all jobs; `failure` says why this process ends, None if it ends in order."""
        ...


class EmbeddedAggregators:
    """Shared memory of this host; the native transport creates, attaches and removes the
    segment.
    """

    def arrange(self, processes: Sequence[Presence], devices: int) -> Agreement:
        machines = {presence.place.machine: presence.place.host for presence in processes}
        if len(machines) > 1:
            raise InvalidArgumentError(
                "the embedded aggregator is memory of one host, but the workers run on "
                f"{', '.join(machines.values())}: "
                "use aggregator='udp' with a switch"
            )
        return {
            "segment": f"jaxina-{secrets.token_hex(8)}",
            "job": secrets.randbits(32),
            "secret": secrets.randbits(64),
            "address": "",
            "ports": [],
            "first_window": 0,
            **dataclasses.asdict(Terms()),
        }

    def join(self, group: Group, worker: int, workers: int, agreement: Agreement) -> None:
        """Nothing: attaching to the segment is joining."""

    def connect_queue_pairs(self, agreement: Agreement, worker: int, end: tuple[Any, ...]) -> tuple[Any, ...]:
        raise InvalidArgumentError("shared memory has no queue pairs")

    def end(self, group: Group, code: str, message: str) -> None:
        """Nothing: the native transport writes it into the segment."""

    def leave(self, failure: str | None) -> None:
        """Nothing: the native transport detaches, and notices the dead by itself."""


class Connector:
    """Callable as the engine's connector. Safe to call from several threads at once, one per
    group.
    """

    def __init__(
        self,
        configuration: Configuration,
        topology: Topology,
        aggregators: Aggregators,
        store: Callable[[], Store],
        ended: Callable[[], set[int]],
        incarnation: int,
    ):
        self._configuration = configuration
        self._topology = topology
        self._aggregators = aggregators
        self._store = store
        self._ended = ended
        self._incarnation = incarnation
        self._place = this_place()
        self._closing = threading.Event()

    def __call__(self, group: Sequence[int]) -> GroupConfig:
        """The GroupConfig of this process in `group` (global device ids): called once for each,
        and blocks until all its processes have come.

        Raises:
          JaxinaError: why the group cannot sum.
        """
        devices = tuple(group)
        try:
            return self._enter(devices)
        except BaseException as error:
            _log.debug("group %s: %s", devices, error)
            raise

    def ended(self, group: Sequence[int], code: str, message: str) -> None:
        """To be called when the group has ended here for a reason that others cannot see."""
        self._aggregators.end(tuple(group), code, message)

    def _enter(self, group: Group) -> GroupConfig:
        owners = self._topology.owners(group)
        processes = list(dict.fromkeys(owners))  # as workers, in this order
        worker = processes.index(self._topology.process)
        shape = self._configuration.shape(devices=len(group), workers=len(processes))
        local = [index for index, owner in enumerate(owners) if owner == self._topology.process]
        if len(processes) == 1:
            return self._config(shape, worker, local, job=0, secret=0)
        agreement = self._meet(group, processes)
        self._aggregators.join(group, worker, len(processes), agreement)
        job = agreement["job"]
        _log.debug("group %s: worker %d of %d, job %s", group, worker, len(processes), job)
        if agreement["whole_chunks"]:
            shape = self._configuration.shape(len(group), len(processes), whole_chunks=True)
        config = self._config(shape, worker, local, job, agreement["secret"])
        self._choose_transport(config, agreement, worker)
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

    def _choose_transport(self, config: GroupConfig, agreement: Agreement, worker: int) -> None:
        configuration = self._configuration
        exchange = functools.partial(self._aggregators.connect_queue_pairs, agreement, worker)
        # Workers that dropped the same packets would be one experiment n times.
        loss, seed = configuration.loss, (configuration.loss_seed + worker) % 2**64
        address, checksums = agreement["address"], agreement["checksums"]
        if configuration.aggregator == "embedded":
            config.use_embedded(agreement["segment"])
        elif configuration.aggregator == "udp":
            window = agreement["first_window"]
            ports = agreement["ports"]
            config.use_udp(address, ports, checksums, first_window=window, loss=loss, loss_seed=seed)
        elif configuration.aggregator == "roce":
            config.use_roce(address, exchange, checksums, loss=loss, loss_seed=seed)
        else:
            config.use_verbs(configuration.rdma_device or "", exchange)

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
        me = Presence(self._topology.process, self._place, self._configuration.shared)
        return rendezvous.meet(me, functools.partial(self._aggregators.arrange, devices=len(group)))

    def interrupt(self) -> None:
        """Ends waits in progress."""
        self._closing.set()

    def close(self, failure: str | None) -> None:
        """Leaves all jobs; see Aggregators.leave."""
        self._aggregators.leave(failure)
