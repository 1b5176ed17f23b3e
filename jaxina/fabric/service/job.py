"""A job as its scheduler's daemon has it: messages of hosts and ticks of a clock go in, messages to hosts come out.

It has no sockets, threads or clock. All times are nanoseconds of one clock that never goes back.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools

from jaxina.control import limits
from jaxina.errors import (
    InvalidArgumentError,
    JaxinaError,
    JobRejectedError,
    MismatchError,
    WorkerLostError,
    from_code,
)
from jaxina.fabric.scheduler import Scheduler, Settings
from jaxina.fabric.service import fabric_pb2 as pb
from jaxina.fabric.service.carrier import Carrier
from jaxina.fabric.service.hosts import Host, Hosts
from jaxina.fabric.service.links import Links
from jaxina.fabric.service.planned import Planned, PlannedTurns
from jaxina.fabric.service.repairs import Repairs
from jaxina.fabric.service.settings import REPLICA, SERVER, JobSettings, host_of, worker_host
from jaxina.fabric.updates import Update


@dataclasses.dataclass
class Counts:
    """What became of a worker's updates."""

    committed: int = 0
    dropped: int = 0


class Job:
    """A job. It begins when the server, and the replica if there is one, have joined.

    Args:
      settings: what it is.
      secret: goes with each frame.
    """

    def __init__(self, settings: JobSettings, secret: int) -> None:
        self.settings = settings
        self.ended: JaxinaError | None = None
        self.hosts = Hosts(settings)
        self.turns = PlannedTurns()
        self.counts: dict[str, Counts] = collections.defaultdict(Counts)
        self.greatest_delay = 0
        self.added = 0
        self.lost = 0
        self.ready: dict[int, Update] = {}
        self._secret = secret
        self.links = Links(settings, self.hosts)
        self.scheduler: Scheduler | None = None
        self.carrier: Carrier | None = None
        self.repairs: Repairs | None = None
        self._elements = 0
        self._wants: dict[str, int] = {}  # the requests for the model, by worker
        self._given: dict[str, int] = {}  # those that the server was told to answer

    @property
    def serving(self) -> str:
        """The name of the host that has the model."""
        return SERVER if self.carrier is None else self.carrier.server

    # ---- hosts come and go

    def join(self, join: pb.Join, now: int) -> Host:
        """A process joins.

        Raises:
          JaxinaError: it may not. `Hosts.add` says when. Besides, nobody may once the job has ended, and no server or
            replica may once it has begun.
        """
        if self.ended is not None:
            raise JobRejectedError(f"the job has ended: {self.ended.message}")
        if join.role != pb.WORKER and self.scheduler is not None:
            raise JobRejectedError(f"the job has begun with another {host_of(join.role, 0)}, and takes no second one")
        host = self.hosts.add(join)
        settings = self.settings
        self.hosts.tell(
            host,
            joined=pb.Joined(
                number=host.number,
                secret=self._secret,
                optimizer=pb.Optimizer(**dataclasses.asdict(settings.optimizer)),
                compressor=settings.compressor,
                patience_s=settings.patience,
                divergence_bound=settings.divergence_bound or 0,
            ),
        )
        if join.role == pb.SERVER:
            self._elements = join.elements
        self.links.look(host.name)
        models = [SERVER] if settings.divergence_bound is None else [SERVER, REPLICA]
        if self.scheduler is None and all(self.hosts.find(name) for name in models):
            self._begin(now)
        return host

    def _begin(self, now: int) -> None:
        settings = self.settings
        workers = [worker_host(rank) for rank in range(settings.workers)]
        replica = None if settings.divergence_bound is None else REPLICA
        self.scheduler = Scheduler(
            self.links.star,
            Settings(
                SERVER,
                settings.delay_bound,
                aggregators=workers,
                groups=settings.groups,
                momentum=settings.optimizer.momentum,
                replica=replica,
                divergence_bound=settings.divergence_bound,
                sum_bytes=4 * self._elements,
            ),
            settings.seed,
        )
        self.carrier = Carrier(self.hosts, self.links.star, self.scheduler, self._elements, replica)
        self.repairs = Repairs(self.hosts, self.turns, self.carrier, settings.patience)
        self.links.begin(self.scheduler)
        if replica is not None:
            self.carrier.give_state(now)

    def left(self, host: Host, now: int) -> None:
        """A process is gone: it has left, or died."""
        self.hosts.remove(host)
        self._wants.pop(host.name, None)
        self._given.pop(host.name, None)
        if self.ended is not None or self.scheduler is None or self.carrier is None or self.repairs is None:
            return
        self.links.look(host.name)
        if host.name == self.carrier.server:
            self._lose_server(host)
        elif host.role == pb.REPLICA:
            self.scheduler.lose_replica()
            self.carrier.replica = None
            self.hosts.tell(self.hosts.find(SERVER), alone=pb.Alone())
            self._release()
        elif host.role == pb.WORKER:
            waiting = [name for name in self.ready if name >> 32 == host.number]
            self.scheduler.withdraw([*waiting, *self.repairs.lose_worker(host, now)])
            for name in waiting:
                del self.ready[name]

    def _lose_server(self, server: Host) -> None:
        assert self.scheduler is not None and self.carrier is not None and self.repairs is not None
        if self.carrier.replica is None:
            why = WorkerLostError("the server of the model died or left, and there is no replica of it")
            self.ended = server.failed or why
            for host in self.hosts:
                self.hosts.tell(host, end=pb.End(code=self.ended.code, message=self.ended.message))
            return
        self.scheduler.lose_server()
        self.carrier.server, self.carrier.replica = self.carrier.replica, None
        self.repairs.lose_server()
        self._wants = self._given | self._wants

    # ---- what hosts say

    def hear(self, host: Host, message: pb.HostMessage, now: int) -> None:
        """Takes a host's message.

        Raises:
          JaxinaError: the host may not say that. Its session ends with this error.
        """
        kind = message.WhichOneof("kind")
        if kind == "leave":
            if message.leave.code:
                host.failed = from_code(message.leave.code, f"{host.name}: {message.leave.message[: limits.MAX_TEXT]}")
            return
        if self.ended is not None or kind == "measured":  # the daemon's monitor takes what was measured
            return
        if kind == "want" and host.role == pb.WORKER:
            self._check_name(host, message.want.name)
            self._given.pop(host.name, None)
            self._wants[host.name] = message.want.name
            return
        if self.scheduler is None or self.carrier is None:
            raise JobRejectedError(f"{host.name} says {kind!r} before the job has begun")
        serves = host.name == self.carrier.server
        if kind == "ready" and host.role == pb.WORKER:
            self._check_name(host, message.ready.name)
            self._ready(host, message.ready, now)
        elif kind == "decided" and serves:
            self._decided(message.decided)
        elif kind in ("received", "behind") and host.role == pb.REPLICA:
            if serves:
                return  # it was said before the replica knew that it is the server
            if kind == "behind":
                self.carrier.give_state(now)
                return
            if message.received.turns > self.turns.replicated:
                self.turns.replicated = message.received.turns
                self.carrier.state_came()
            self.hosts.tell(self.hosts.find(SERVER), received=message.received)
            self._release()
        else:
            raise InvalidArgumentError(f"{host.name} may not say {kind!r}")

    @staticmethod
    def _check_name(host: Host, name: int) -> None:
        if name >> 32 != host.number:
            raise JobRejectedError(f"{host.name} uses the name {name:#x}, which is another host's")

    def _ready(self, host: Host, ready: pb.Ready, now: int) -> None:
        assert self.scheduler is not None
        self._given.pop(host.name, None)
        try:
            norm = ready.norm * self.settings.optimizer.longest_step
            update = Update(ready.name, host.name, ready.size, ready.version, now, norm)
            if self.turns.find(ready.name) is not None:  # it may have waited so long that the scheduler forgot its name
                raise InvalidArgumentError(f"update {ready.name:#x} has a turn already")
            self.scheduler.add(update)
        except InvalidArgumentError as error:
            self.hosts.tell(host, refused=pb.Refused(name=ready.name, code=error.code, message=error.message))
            return
        self.ready[ready.name] = update

    def _decided(self, decided: pb.Decided) -> None:
        assert self.carrier is not None and self.scheduler is not None
        if self.turns.decided + len(decided.committed) > self.turns.planned:
            raise MismatchError("the server has decided on turns that are not planned")
        lost = []
        for committed in decided.committed:
            turn = self.turns.decide(committed)
            if not committed:
                lost.append(turn.update.name)
            self._count(turn, committed)
            outcome = pb.Outcome(name=turn.update.name, committed=committed, version=turn.turn + 1)
            if not committed:
                outcome.reason = "it did not come in time, or could not come any more"
            self.hosts.tell(self.hosts.owner(turn.update.name), outcome=outcome)
        self.scheduler.withdraw(lost)  # the replica does not need them
        if self.carrier.replica is not None:
            self.hosts.tell(self.hosts.find(self.carrier.replica), decided=decided)
        self._release()

    def _count(self, turn: Planned, committed: bool) -> None:
        counts = self.counts[turn.update.worker]
        if committed:
            counts.committed += 1
            self.greatest_delay = max(self.greatest_delay, turn.turn - turn.update.version)
        else:
            counts.dropped += 1
            self.lost += 1

    def _release(self) -> None:
        """Tells workers, and the scheduler, which updates nobody needs any more."""
        assert self.carrier is not None and self.scheduler is not None
        names = collections.defaultdict(list)
        for turn in self.turns.release(self.carrier.replica is not None):
            names[turn.update.name >> 32].append(turn.update.name)
        self.scheduler.replicated(itertools.chain(*names.values()))
        for host in self.hosts:
            if host.number in names:
                self.hosts.tell(host, release=pb.Release(names=names[host.number]))

    # ---- time passes

    def tick(self, now: int) -> None:
        """Plans the batch of this moment, and looks for turns that are too late."""
        if self.carrier is None or self.repairs is None or self.ended is not None:
            return
        self._plan(now)
        for name in self.carrier.give(self._wants, now):
            self._given[name] = self._wants.pop(name)
        self.repairs.look_for_late_turn(now)
        self.repairs.look_for_late_copy(now)

    def _plan(self, now: int) -> None:
        assert self.scheduler is not None and self.carrier is not None
        replica = self.scheduler.replica
        if not self.ready and (replica is None or not replica.pending):
            return
        plan = self.scheduler.plan(now)
        for dropped in plan.dropped:
            name = dropped.update.name
            del self.ready[name]
            self.counts[dropped.update.worker].dropped += 1
            owner = self.hosts.owner(name)
            outcome = pb.Outcome(name=name, version=self.turns.decided, reason=dropped.reason.value)
            self.hosts.tell(owner, outcome=outcome)
            self.hosts.tell(owner, release=pb.Release(names=[name]))
        first = self.turns.planned
        assert first == plan.version, "the turns are the scheduler's versions"
        planned: list[Planned] = []
        for group in plan.groups:
            number = self.carrier.carry(group, now)
            for update in group.updates:
                del self.ready[update.name]
                planned.append(Planned(update, first + len(planned), group.end, number, group.aggregator))
        self.added += sum(1 for turn in planned if turn.group)
        for turn in planned:
            self.turns.add(turn)
        self.carrier.announce(first, planned)
        for group in plan.replica:
            for update in group.updates:
                copied = self.turns.find(update.name)
                assert copied is not None, "the replica has this update, and is to get it again"
                copied.copied = group.end
        self.carrier.replicate(plan.replica, now)
