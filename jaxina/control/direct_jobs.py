"""The Aggregators of the connector that need no switch: each process sums a part of the slots itself.

Every process has a server: a software switch of one thread. Of a job's P workers, the server of worker w sums the
slots i with i mod P = w. Hosts of their own may be the servers instead. The first process of a group runs the control
service of the group's job, which knows who has joined and who has died.

Switches may combine updates on their way to the servers (aggregator "atp"). Each process names those of its own rack,
and tells the first process what it has found there. That one plans (`racks`) and asks the switches. A job can do
without them, so a switch that stops costs only time.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jaxina._native import SoftwareSwitch
from jaxina.config import Configuration
from jaxina.control import racks
from jaxina.control.assistance import Helpers
from jaxina.control.connector import Group
from jaxina.control.data_address import Addresses
from jaxina.control.interfaces import at_free_port
from jaxina.control.job_sessions import JobSessions, check_alive
from jaxina.control.leader import LEADER, LeaderControl, name_of_leader
from jaxina.control.rendezvous import Agreement, Presence
from jaxina.control.roles import Combine
from jaxina.control.servers import Servers, Switch, WorkerServer
from jaxina.control.tls import tls_of
from jaxina.errors import InvalidArgumentError, JaxinaError, SwitchUnreachableError, WorkerLostError

_log = logging.getLogger(__name__)


class DirectAggregators:
    """Makes and joins jobs that are summed by the workers' own servers.

    Args:
      configuration: this process's.
      process: this process's number.
      host: the numeric address at which the other processes reach this one.
      ended: returns the processes that are known to have ended.
      abort: ``abort(group, code, message)`` ends the engine's collectives of a group.
      statistics: returns the engine's counters.

    Attributes:
      switches: the switches that the configuration names.

    Raises:
      SwitchUnreachableError: a switch or a server that the configuration names does not answer.
      InvalidArgumentError: `host` is not an address of this host.
      SystemCallError: the system has no thread or socket left.
    """

    def __init__(
        self,
        configuration: Configuration,
        process: int,
        host: str,
        ended: Callable[[], set[int]],
        abort: Callable[[list[int], str, str], Any],
        statistics: Callable[[], dict[str, int]],
    ):
        self._configuration = configuration
        self._process = process
        self._host = host
        self._ended = ended
        self._abort = abort
        self._sessions = JobSessions(configuration, statistics)
        self._jobs: dict[Group, tuple[int, int]] = {}  # id, and this process's worker
        self._control = LeaderControl(configuration, host)
        self._roles: dict[int, dict[str, Combine]] = {}  # what switches shall do for jobs that this process leads
        self._cores: dict[str, Switch] = {}
        self._lock = threading.Lock()  # guards the jobs, roles and cores
        self._server: SoftwareSwitch | None = None  # with dedicated servers there is none
        self._helpers = Helpers(configuration.join_timeout, configuration.token, tls_of(configuration))
        # If a switch is not there, say so now rather than in the first psum.
        self.switches: Sequence[Switch] = [self._helpers.find(one) for one in configuration.switches_on_the_way]
        self._dedicated = [self._helpers.find(one) for one in configuration.dedicated_servers]
        if not self._dedicated:
            # The workers drop packets with the seeds that follow loss_seed. A server must not drop the same ones.
            seed = (configuration.loss_seed + (1 << 32) + process) % 2**64
            self._server = at_free_port(
                configuration.ports or (),
                host,
                lambda port: SoftwareSwitch(host, 1, configuration.loss, seed, [port] if port else []),
            )

    def arrange(self, processes: Sequence[Presence], devices: int) -> Agreement:
        named = racks.one_view([presence.switches for presence in processes])
        found = {control: self._core(control) for control in racks.cores(named) if control is not None}
        layout, roles = racks.plan(named, found)
        leader = name_of_leader(processes)
        control = self._control.address
        grant = self._sessions.create_job(self._control.client(control, leader), devices, len(processes))
        with self._lock:
            self._roles[grant.job] = roles
        return {
            "job": grant.job,
            "secret": grant.secret,
            "control": control,
            "leader": leader,
            "processes": [presence.process for presence in processes],
            "address": "",
            "segment": "",
            "switches": dataclasses.asdict(layout),
            "servers": racks.in_turn(self._dedicated, racks.most_threads(self._dedicated)),
            **dataclasses.asdict(grant.terms),
        }

    def _core(self, control: str) -> Switch:
        """The core switch, which this process need not reach again for its next job."""
        with self._lock:
            if control in self._cores:
                return self._cores[control]
        try:
            found = self._helpers.find(control)
        except SwitchUnreachableError as error:
            raise SwitchUnreachableError(
                f"{error.message}. It is the --upstream of the switches that the workers name"
            ) from None
        with self._lock:
            return self._cores.setdefault(control, found)

    def join(self, group: Group, worker: int, workers: int, agreement: Agreement) -> Servers:
        """Adds the job to this process's server, joins, and waits until all workers of the job have joined.

        So all servers know the job before any worker sends a packet.
        """
        shape = self._configuration.shape(devices=len(group), workers=workers)
        job, secret = agreement["job"], agreement["secret"]
        layout = racks.Layout.restored(agreement["switches"])
        dedicated = racks.restored_addresses(agreement["servers"])
        window, server = 0, None
        client = self._control.client(agreement["control"], agreement["leader"])
        key = self._sessions.key(client, agreement)
        with self._lock:
            self._jobs[group] = job, worker
            roles = self._roles.pop(job, {})
        try:
            if self._server is not None:
                self._server.add_part(job, secret, shape, worker, workers, layout.groups, layout.tops, key)
                server = WorkerServer(self._host, self._server.ports[0], self._server.slots_that_fit(shape))
            elif worker == LEADER:
                lost = functools.partial(self._lost_server, group)
                window = self._helpers.serve(job, secret, shape, self._dedicated, layout, lost)
                self._helpers.combine(job, secret, shape, _upstream_from(roles, dedicated))
            found = self._sessions.join(
                client,
                group,
                worker,
                workers,
                agreement,
                functools.partial(self._aborted, group, job),
                server=server,
                check=lambda: check_alive(agreement["processes"], self._ended()),
            )
        except JaxinaError:
            self._helpers.release(job)
            raise
        addresses = dedicated or [(one.host, one.port) for one in found]
        if worker == LEADER and not dedicated:  # the servers' addresses were not known before
            self._helpers.combine(job, secret, shape, _upstream_from(roles, addresses))
        # A pass goes to one of the servers, so all of them together have room for more passes than each has.
        rooms = [one.room for one in found]
        if found and all(rooms):
            window = min(shape.slots, workers * min(rooms))
        return Servers(
            addresses,
            window,
            at_workers=not dedicated,
            switches=layout.way(worker),
            workers_per_link=max(-(-workers // (len(self._dedicated) or workers)), layout.senders_per_link),
            key=key,
        )

    def _lost_server(self, group: Group, error: JaxinaError) -> None:
        """A dedicated server has stopped, so the job ends for all.

        The others are told first. This process's program may end as soon as its own sums fail, and then the others
        would only be told that this worker is gone.
        """
        lost = WorkerLostError(f"a server of the job is gone, and the sums that it had: {error.message}")
        self._sessions.end(group, lost.code, lost.message)
        self._abort(list(group), lost.code, lost.message)

    def _aborted(self, group: Group, job: int, code: str, message: str) -> None:
        self._abort(list(group), code, message)
        self._end_at_server(job, code, message)
        self._helpers.release(job)

    def _end_at_server(self, job: int, code: str, message: str) -> None:
        """From now on this process's server answers the job's packets with the error."""
        if self._server is None:
            return
        try:
            self._server.abort_job(job, code, message)
        except JaxinaError as error:  # the control service tells the workers too
            _log.debug("job %d: %s", job, error)

    def connect_queue_pairs(self, agreement: Agreement, worker: int, end: tuple[Any, ...]) -> tuple[Any, ...]:
        raise InvalidArgumentError("the workers' own servers have no queue pairs")

    def end(self, group: Group, code: str, message: str) -> None:
        with self._lock:
            known = self._jobs.get(group)
        if known is not None:
            self._end_at_server(known[0], code, message)
        self._sessions.end(group, code, message)

    def leave(self, failure: str | None) -> None:
        """Leaves all jobs.

        If nothing failed, this process's server goes on until the others have left too, because they may have lost a
        result that only this server can repeat.
        """
        with self._lock:
            jobs, self._jobs = self._jobs, {}
        if failure is not None:
            for job, worker in jobs.values():
                self._end_at_server(job, "WORKER_LOST", f"worker {worker} ended with {failure}")
        self._sessions.leave(failure, wait_for_others=True)
        self._control.close()
        self._helpers.close()
        if self._server is not None:
            self._server.stop()


def _upstream_from(roles: Mapping[str, Combine], servers: Addresses) -> dict[str, Combine]:
    """The roles, with the servers as the upstream of those that have none."""
    return {
        control: role if role.upstream else dataclasses.replace(role, upstream=tuple(servers))
        for control, role in roles.items()
    }
