"""The one who plans: takes updates that are ready, and says who sends what to whom, and when."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterable, Sequence

from jaxina.errors import InvalidArgumentError
from jaxina.fabric.aggregation import aggregate, dense_sum_size
from jaxina.fabric.calendar import Calendar
from jaxina.fabric.network import Network
from jaxina.fabric.ordering import Policy, bounded_delay_order
from jaxina.fabric.plans import Dropped, Group
from jaxina.fabric.recent_names import RecentNames
from jaxina.fabric.replication import Replica
from jaxina.fabric.updates import Update


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """What a job wants of its scheduler.

    Attributes:
      server: the host of the model.
      delay_bound: tau_max: every update's delay is below it, in updates.
      aggregators: the hosts that may add updates for the server.
      groups: k, how many of them a batch uses at most. Which ones is drawn anew for each batch.
      policy: who goes first because of its deadline.
      momentum: of the server's optimizer. If it is not 0, a sum of updates is sent as two sums (see `Scheduler`).
      replica: the host that has a copy of the model, if any.
      replica_aggregators: the hosts that may add updates for the replica.
      divergence_bound: Div_max, if there is a replica.
      sum_bytes: how large a sum of updates is, if they are compressed and sums are not. None: as its largest update.
    """

    server: str
    delay_bound: int
    aggregators: Sequence[str] = ()
    groups: int = 2
    policy: Policy = Policy.EDF
    momentum: float = 0.0
    replica: str | None = None
    replica_aggregators: Sequence[str] = ()
    divergence_bound: float | None = None
    sum_bytes: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """What happens with a batch.

    Attributes:
      version: the model's version before the batch.
      after: when all of the batches before can be committed, in nanoseconds.
      groups: what the server gets, in the order in which it commits it.
      replica: what the replica gets, in the same order. It may begin with updates of earlier batches.
      dropped: what is not sent.
      held: what must wait for the replica, and is planned again with the next batch.
    """

    version: int
    after: int
    groups: tuple[Group, ...]
    replica: tuple[Group, ...]
    dropped: tuple[Dropped, ...]
    held: tuple[Update, ...]

    def commits(self) -> list[tuple[int, Update]]:
        """When the server can commit each update, in nanoseconds and in order."""
        commits, time = [], self.after
        for group in self.groups:
            time = max(time, group.end)
            commits += [(time, update) for update in group.updates]
        return commits


class Scheduler:
    """Plans batch after batch.

    A bound on delays counts updates, not seconds. So it holds as long as the server commits in the order of the plan,
    however long the transfers really take.

    With momentum, one sum of m updates is not what m commits are. It is if two sums are sent: of momentum^(m-j) u_j for
    h, and of (1 + ... + momentum^(m-j)) u_j for the model. So sums are planned with twice the size then.

    Args:
      network: the hosts, their links and their rates.
      settings: what the job wants.
      seed: of the draw of aggregators. The same calls with the same seed give the same plans.

    Raises:
      InvalidArgumentError: a setting is out of range, or names a host that is not there.
    """

    def __init__(self, network: Network, settings: Settings, seed: int = 0) -> None:
        if settings.delay_bound < 1:
            raise InvalidArgumentError(
                f"a delay bound of {settings.delay_bound} lets no update through: 1 is the least"
            )
        if not 0 <= settings.momentum < 1:
            raise InvalidArgumentError(f"a momentum of {settings.momentum} is not at least 0 and below 1")
        if settings.groups < 0:
            raise InvalidArgumentError(f"{settings.groups} groups are not possible")
        if (settings.replica is None) != (settings.divergence_bound is None):
            raise InvalidArgumentError("a replica needs a divergence bound, and a divergence bound a replica")
        for host in (*settings.aggregators, *settings.replica_aggregators, settings.replica or settings.server):
            network.path(host, settings.server)
        self._network = network
        self._settings = settings
        self._random = random.Random(seed)
        self._calendar = Calendar(network.rates)
        self._ready: dict[int, Update] = {}
        self._known = RecentNames()
        self._version = 0
        self._committed = 0  # when all that is planned can be committed
        self._replica: Replica | None = None
        if settings.replica is not None and settings.divergence_bound is not None:
            self._replica = Replica(settings.replica, settings.divergence_bound, settings.momentum)

    @property
    def version(self) -> int:
        """The model's version once all that is planned is committed."""
        return self._version

    @property
    def calendar(self) -> Calendar:
        """What is free, with all that is planned reserved."""
        return self._calendar

    @property
    def replica(self) -> Replica | None:
        """The replica, if there is one."""
        return self._replica

    def set_rate(self, link: int, rate: int) -> None:
        """The monitor says that a link has another rate, in bytes per second."""
        self._calendar.set_rate(link, rate)

    def add(self, update: Update) -> None:
        """An update is ready at its worker.

        Raises:
          InvalidArgumentError: its name was used before, as far as that is remembered; its worker is no host; or its
            version is one that the model never had.
        """
        self._network.path(update.worker, self._settings.server)
        if update.name in self._known or update.name in self._ready:
            raise InvalidArgumentError(f"there was an update {update.name} before")
        if update.version > self._version:
            raise InvalidArgumentError(
                f"update {update.name} of {update.worker} is of version {update.version}, "
                f"but the model has {self._version}"
            )
        self._known.add(update.name)
        self._ready[update.name] = update

    def withdraw(self, names: Iterable[int]) -> None:
        """These updates cannot be sent any more: not to the server, and not to the replica."""
        gone = set(names)
        self._ready = {name: u for name, u in self._ready.items() if name not in gone}
        if self._replica is not None:
            self._replica.forget(gone)

    def replicated(self, names: Iterable[int]) -> None:
        """The replica, if there is one, has these updates."""
        if self._replica is not None:
            self._replica.received(set(names))

    def lose_replica(self) -> None:
        """There is no replica any more."""
        self._settings = dataclasses.replace(self._settings, replica=None, divergence_bound=None)
        self._replica = None

    def lose_server(self) -> None:
        """The replica is the server from now on, and there is no other replica. All turns that are planned must be
        decided there before the next plan's. What was reserved is free again.

        Raises:
          InvalidArgumentError: there is no replica.
        """
        if self._settings.replica is None:
            raise InvalidArgumentError("the server is lost, and there is no replica")
        self._settings = dataclasses.replace(self._settings, server=self._settings.replica)
        self.lose_replica()
        self._calendar = self._calendar.cleared()
        self._committed = 0

    def plan(self, now: int) -> Plan:
        """Plans all updates that are ready, and reserves their transfers.

        Args:
          now: nanoseconds, never less than before.
        """
        settings = self._settings
        self._calendar.forget_before(now)
        batch = list(self._ready.values())
        order = bounded_delay_order(
            self._network,
            self._calendar.fork(),
            settings.server,
            batch,
            now,
            self._version,
            settings.delay_bound,
            settings.policy,
        )
        groups, calendar = aggregate(
            self._network,
            self._calendar,
            settings.server,
            [t.update for t in order.transfers],
            self._draw(settings.aggregators),
            now,
            self._sum_size,
        )
        replica: list[Group] = []
        held: list[Update] = []
        if self._replica is not None:
            aggregators = self._draw(settings.replica_aggregators)
            done = self._replica.replicate(self._network, calendar, groups, aggregators, now, self._sum_size)
            groups, replica, held, calendar = done.server, done.replica, done.held, done.calendar
        self._calendar = calendar
        self._ready = {u.name: u for u in held}
        plan = Plan(self._version, self._committed, tuple(groups), tuple(replica), order.dropped, tuple(held))
        self._version += sum(len(g.updates) for g in groups)
        self._committed = max([self._committed, *(g.end for g in groups)])
        return plan

    def _draw(self, hosts: Sequence[str]) -> list[str]:
        return self._random.sample(list(hosts), min(self._settings.groups, len(hosts)))

    def _sum_size(self, updates: Sequence[Update]) -> int:
        one = dense_sum_size(updates) if self._settings.sum_bytes is None else self._settings.sum_bytes
        return one * (1 if self._settings.momentum == 0 else 2)
