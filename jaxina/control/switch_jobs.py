"""The Aggregators of the connector that are jobs at a switch."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from jaxina.config import Configuration
from jaxina.control.client import SwitchClient
from jaxina.control.connector import Group
from jaxina.control.data_plane import QueuePairs
from jaxina.control.job_sessions import JobSessions
from jaxina.control.rendezvous import Agreement, Presence
from jaxina.control.servers import Servers, Switch
from jaxina.control.switch_address import ANSWER_TIMEOUT, find
from jaxina.control.tls import tls_of
from jaxina.errors import InvalidArgumentError, JaxinaError


class SwitchAggregators:
    """Makes and joins jobs at the switch that the configuration names.

    Args:
      configuration: this process's.
      abort: ``abort(group, code, message)`` ends the engine's collectives of a group.
      statistics: returns the engine's counters.

    Raises:
      SwitchUnreachableError: no switch answers at ``configuration.switch``.
    """

    switches: Sequence[Switch] = ()

    def __init__(
        self,
        configuration: Configuration,
        abort: Callable[[list[int], str, str], Any],
        statistics: Callable[[], dict[str, int]],
    ):
        self._abort = abort
        self._sessions = JobSessions(configuration, statistics)
        self._client = SwitchClient(
            configuration.switch,
            min(ANSWER_TIMEOUT, configuration.join_timeout),
            configuration.token,
            tls=tls_of(configuration),
        )
        try:
            # If the switch is not there, say so now rather than in the first psum.
            found = find(self._client)
            if not found.ports:
                raise InvalidArgumentError(
                    f"the switch at {configuration.switch} is transparent: it sums rings of workers only, with "
                    "aggregator='netreduce'"
                )
            self._data_host = found.host
        except JaxinaError:
            self._client.close()
            raise

    def arrange(self, processes: Sequence[Presence], devices: int) -> Agreement:
        grant = self._sessions.create_job(self._client, devices, len(processes))
        return {
            "job": grant.job,
            "secret": grant.secret,
            "ports": grant.data_ports,
            "address": self._data_host,
            "segment": "",
            "first_window": grant.first_window,
            **dataclasses.asdict(grant.terms),
        }

    def join(self, group: Group, worker: int, workers: int, agreement: Agreement) -> Servers:
        """Joins, and waits until all workers of the job have joined."""
        key = self._sessions.key(self._client, agreement)
        self._sessions.join(
            self._client,
            group,
            worker,
            workers,
            agreement,
            lambda code, message: self._abort(list(group), code, message),
        )
        addresses = [(agreement["address"], port) for port in agreement["ports"]]
        return Servers(addresses, agreement["first_window"], key=key)

    def connect_queue_pairs(self, agreement: Agreement, worker: int, end: tuple[Any, ...]) -> tuple[Any, ...]:
        ours = QueuePairs(*end)
        theirs = self._client.connect_queue_pairs(agreement["job"], agreement["secret"], worker, ours)
        return dataclasses.astuple(theirs)

    def end(self, group: Group, code: str, message: str) -> None:
        self._sessions.end(group, code, message)

    def leave(self, failure: str | None) -> None:
        self._sessions.leave(failure)
        self._client.close()
