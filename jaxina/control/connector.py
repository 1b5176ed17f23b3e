"""What the engine asks when a group of devices first sums together: where is our aggregator?"""

from __future__ import annotations

import concurrent.futures
import hashlib
import logging
import secrets
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from jaxina.config import MAX_WORKERS, Configuration
from jaxina.control.rendezvous import Agreement, Presence, Rendezvous
from jaxina.control.store import Store
from jaxina.control.topology import Topology, this_place
from jaxina.errors import InvalidArgumentError, TooManyWorkersError

_log = logging.getLogger(__name__)

Group = tuple[int, ...]


class Aggregators(Protocol):
    """A kind of aggregator, as the connector uses it."""

    def arrange(self, workers: int, processes: Sequence[Presence]) -> Agreement:
        """Called in the leader: sets a job up; returns what every member must know, fit for
        JSON.
        """
        ...

    def join(self, group: Group, ranks: Sequence[int], agreement: Agreement) -> None:
        """Called once per process and group, with the process's own members."""
        ...

    def leave(self, failure: str | None) -> None:
        """Leaves all jobs; `failure` says why this process ends, None if it ends in order."""
        ...


class EmbeddedAggregators:
    """Shared memory of this host; the native transport creates, attaches and removes the
    segment.
    """

    def arrange(self, workers: int, processes: Sequence[Presence]) -> Agreement:
        machines = {presence.place.machine: presence.place.host for presence in processes}
        if len(machines) > 1:
            raise InvalidArgumentError(
                "the embedded aggregator is memory of one host, but the workers run on "
                f"{', '.join(machines.values())}: "
                "use aggregator='udp' with a switch"
            )
        return {
            # Nothing to find for a process that is alone: private memory.
            "segment": f"jaxina-{secrets.token_hex(8)}" if len(processes) > 1 else "",
            "job": secrets.randbits(32),
            "secret": secrets.randbits(64),
            "address": "",
            "ports": [],
        }

    def join(self, group: Group, ranks: Sequence[int], agreement: Agreement) -> None:
        """Nothing: attaching to the segment is joining."""

    def leave(self, failure: str | None) -> None:
        """Nothing: the native transport detaches, and notices the dead by itself."""


class Connector:
    """Callable as the engine's connector. Safe to call from several threads at once, one per
    member.
    """

    def __init__(
        self,
        configuration: Configuration,
        topology: Topology,
        aggregators: Aggregators,
        store: Callable[[], Store],
        incarnation: int,
        endpoint: Callable[[], Any],
    ):
        self._configuration = configuration
        self._topology = topology
        self._aggregators = aggregators
        self._store = store
        self._incarnation = incarnation
        self._endpoint = endpoint
        self._place = this_place()
        self._lock = threading.Lock()
        self._agreements: dict[Group, concurrent.futures.Future[Agreement]] = {}
        self._closing = threading.Event()

    def __call__(self, group: Sequence[int], member: int) -> Any:
        """The EndpointConfig of `member` (an index) of `group` (global device ids).

        Raises:
          JaxinaError: the same one for every member of the group in this process.
        """
        key = tuple(group)
        with self._lock:
            future = self._agreements.get(key)
            first = future is None
            if future is None:
                future = self._agreements[key] = concurrent.futures.Future()
        if first:
            try:
                future.set_result(self._enter(key))
            except BaseException as error:
                _log.debug("group %s: %s", key, error)
                future.set_exception(error)
        # The first caller's waits are bounded, so this one is.
        return self._fill(len(key), member, future.result())

    def _enter(self, group: Group) -> Agreement:
        if len(group) > MAX_WORKERS:
            raise TooManyWorkersError(
                f"a group of {len(group)} devices; one aggregator serves {MAX_WORKERS}: sum over a "
                "smaller mesh axis, "
                "or over two axes one after the other"
            )
        owners = self._topology.owners(group)
        me = Presence(self._topology.process, self._place, self._configuration.shared)
        if set(owners) == {me.process}:
            agreement = self._aggregators.arrange(len(group), [me])
        else:
            rendezvous = Rendezvous(
                self._store(),
                self._prefix(group),
                owners,
                self._configuration.join_timeout,
                self._closing.is_set,
            )
            agreement = rendezvous.meet(
                me, lambda everybody: self._aggregators.arrange(len(group), everybody)
            )
        ranks = [rank for rank, owner in enumerate(owners) if owner == me.process]
        self._aggregators.join(group, ranks, agreement)
        _log.debug("group %s: job %s, ranks %s", group, agreement["job"], ranks)
        return agreement

    def _prefix(self, group: Group) -> str:
        name = hashlib.sha256(repr(group).encode()).hexdigest()[:16]
        return f"jaxina/{self._incarnation}/{name}"

    def _fill(self, workers: int, member: int, agreement: Agreement) -> Any:
        configuration = self._configuration
        endpoint = self._endpoint()
        endpoint.transport = configuration.aggregator
        endpoint.devices = workers
        endpoint.workers = workers
        endpoint.worker = member
        endpoint.job = agreement["job"]
        endpoint.secret = agreement["secret"]
        endpoint.slots = configuration.slots
        endpoint.block_size = configuration.block_size
        endpoint.blocks_per_chunk = configuration.blocks_per_chunk
        endpoint.segment = agreement["segment"]
        endpoint.address = agreement["address"]
        endpoint.ports = agreement["ports"]
        endpoint.loss = configuration.loss
        # Workers that dropped the same packets would be one experiment n times.
        endpoint.loss_seed = (configuration.loss_seed + member) % 2**64
        endpoint.join_timeout_s = configuration.join_timeout
        endpoint.collective_timeout_s = configuration.timeout
        return endpoint

    def interrupt(self) -> None:
        """Ends waits in progress."""
        self._closing.set()

    def close(self, failure: str | None) -> None:
        """Leaves all jobs; see Aggregators.leave."""
        self._aggregators.leave(failure)
