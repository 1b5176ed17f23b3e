"""The Aggregators of the connector that are rings of reliable connections between the workers (docs/netreduce.md).

If the configuration names a transparent switch, it adds what passes, and its control service has the jobs. Otherwise
the workers add, and the first process of a group runs the control service of the group's job.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from jaxina.config import Configuration
from jaxina.control.client import SwitchClient
from jaxina.control.connector import Group
from jaxina.control.data_plane import QueuePairs
from jaxina.control.job_sessions import JobSessions, check_alive
from jaxina.control.leader import LeaderControl, name_of_leader
from jaxina.control.rendezvous import Agreement, Presence
from jaxina.control.servers import Servers, Switch
from jaxina.control.switch_address import ANSWER_TIMEOUT
from jaxina.control.tls import tls_of
from jaxina.errors import JaxinaError


class RingAggregators:
    """Makes and joins jobs that are rings.

    Args:
      configuration: this process's.
      host: the numeric address at which the other processes reach this one.
      ended: returns the processes that are known to have ended.
      abort: ``abort(group, code, message)`` ends the engine's collectives of a group.
      statistics: returns the engine's counters.

    Raises:
      SwitchUnreachableError: no switch answers at the address that the configuration names.
    """

    switches: Sequence[Switch] = ()

    def __init__(
        self,
        configuration: Configuration,
        host: str,
        ended: Callable[[], set[int]],
        abort: Callable[[list[int], str, str], Any],
        statistics: Callable[[], dict[str, int]],
    ):
        self._configuration = configuration
        self._host = host
        self._ended = ended
        self._abort = abort
        self._sessions = JobSessions(configuration, statistics)
        self._control = LeaderControl(configuration, host)
        self._switch: SwitchClient | None = None
        if configuration.uses_switch:
            timeout = min(ANSWER_TIMEOUT, configuration.join_timeout)
            self._switch = SwitchClient(configuration.switch, timeout, configuration.token, tls=tls_of(configuration))
            try:
                self._switch.status()  # if the switch is not there, say so now rather than in the first psum
            except JaxinaError:
                self._switch.close()
                raise

    def arrange(self, processes: Sequence[Presence], devices: int) -> Agreement:
        control, leader = "", name_of_leader(processes)
        if self._switch is None:
            control = self._control.address
        grant = self._sessions.create_job(self._client(control, leader), devices, len(processes))
        return {
            "job": grant.job,
            "secret": grant.secret,
            "control": control,
            "leader": leader,
            "processes": [presence.process for presence in processes],
            "address": "",
            "segment": "",
            **dataclasses.asdict(grant.terms),
        }

    def _client(self, control: str, leader: str) -> SwitchClient:
        return self._switch or self._control.client(control, leader)

    def join(self, group: Group, worker: int, workers: int, agreement: Agreement) -> Servers:
        """Joins, and waits until all workers of the job have joined."""
        self._sessions.join(
            self._client(agreement["control"], agreement["leader"]),
            group,
            worker,
            workers,
            agreement,
            lambda code, message: self._abort(list(group), code, message),
            check=lambda: check_alive(agreement["processes"], self._ended()),
        )
        return Servers(own_host=self._host)

    def connect_queue_pairs(self, agreement: Agreement, worker: int, end: tuple[Any, ...]) -> tuple[Any, ...]:
        client = self._client(agreement["control"], agreement["leader"])
        following, previous = client.connect_ring(
            agreement["job"], agreement["secret"], worker, QueuePairs(*end), self._configuration.join_timeout
        )
        return dataclasses.astuple(following), dataclasses.astuple(previous)

    def end(self, group: Group, code: str, message: str) -> None:
        self._sessions.end(group, code, message)

    def leave(self, failure: str | None) -> None:
        """Leaves all jobs. The first process of a group goes on until the others have left, because it has the service.

        Nobody needs this process for data any more: the engine has waited until the next worker has everything.
        """
        self._sessions.leave(failure, wait_for_others=self._switch is None)
        self._control.close()
        if self._switch is not None:
            self._switch.close()
