"""A random job with a scheduler, driven batch after batch, and what must hold of its plans."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import math
import random

import numpy as np

from jaxina.fabric import Plan, Policy, Reservation, Scheduler, Settings, Star, Transfer, Update
from jaxina.fabric.calendar import NANOSECONDS
from jaxina.fabric.network import Nic

MEGABYTE = 1_000_000
DIMENSIONS = 3  # of the vectors whose norms the updates carry


@dataclasses.dataclass
class Counts:
    """What happened in a world."""

    committed: int = 0
    dropped: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    aggregated: int = 0
    replicated: int = 0
    held: int = 0
    most_delay: float = 0.0  # of the bound
    most_divergence: float = 0.0  # of the bound


class World:
    """A job with random hosts, rates and updates. `run` raises AssertionError if a plan breaks a promise."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        draw = self.random
        workers = [f"w{i}" for i in range(draw.randint(1, 8))]
        hosts = [*workers, "server", "replica"]
        self.network = Star({h: Nic(self.rate(), self.rate()) for h in hosts})
        self.workers = workers
        self.momentum = draw.choice([0.0, 0.0, 0.5, 0.9])
        replica = draw.random() < 0.5
        self.bound = draw.choice([0.5, 3.0, 20.0])
        self.settings = Settings(
            server="server",
            delay_bound=draw.randint(1, 3 * len(workers)),
            aggregators=draw.sample(workers, draw.randint(0, len(workers))),
            groups=draw.randint(0, 3),
            policy=draw.choice(list(Policy)),
            momentum=self.momentum,
            replica="replica" if replica else None,
            replica_aggregators=draw.sample(workers, draw.randint(0, len(workers))),
            divergence_bound=self.bound if replica else None,
        )
        self.scheduler = Scheduler(self.network, self.settings, seed)
        self.capacity = collections.defaultdict(list)  # each link's (since, rate)
        for link, rate in enumerate(self.network.rates):
            self.capacity[link].append((0, rate))
        self.added: dict[int, Update] = {}
        self.vectors: dict[int, np.ndarray] = {}
        self.reservations: list[Reservation] = []
        self.made: dict[int, int] = {}  # when each reservation was planned
        self.server_order: list[tuple[int, Update]] = []
        self.replica_order: list[tuple[int, Update]] = []
        self.counts = Counts()

    def rate(self) -> int:
        return self.random.choice([125, 312, 412, 625, 1250]) * MEGABYTE

    def run(self, batches: int) -> Counts:
        now, name = 0, 0
        read = dict.fromkeys(self.workers, 0)  # the version that each worker has
        waiting: set[str] = set()
        for _ in range(batches):
            for worker in self.workers:
                if worker not in waiting and self.random.random() < 0.7:
                    vector = np.array([self.random.gauss(0, 1) for _ in range(DIMENSIONS)])
                    self.vectors[name] = vector
                    size = self.random.randint(1, 400) * MEGABYTE
                    ready = now - self.random.randint(0, 1) * min(now, 50_000_000)
                    self.added[name] = Update(name, worker, size, read[worker], ready, _norm(vector))
                    self.scheduler.add(self.added[name])
                    waiting.add(worker)
                    name += 1
            plan = self.scheduler.plan(now)
            self.check_plan(plan, now)
            waiting = {u.worker for u in plan.held}
            for worker in self.workers:
                if worker not in waiting and self.random.random() < 0.8:
                    read[worker] = self.scheduler.version
            now += self.random.choice([1, 100, 1000]) * 1_000_000
            if self.random.random() < 0.3:
                link = self.random.randrange(len(self.network.rates))
                rate = self.random.choice([self.rate(), self.rate(), 0 if link >= 2 * len(self.workers) + 2 else 1])
                self.scheduler.set_rate(link, rate)
                self.capacity[link].append((now, rate))
        self.check_links()
        if self.settings.replica is not None:
            self.check_replica()
        return self.counts

    def check_plan(self, plan: Plan, now: int) -> None:
        commits = plan.commits()
        for i, (_, update) in enumerate(commits):
            delay = plan.version + i - update.version
            assert 0 <= delay < self.settings.delay_bound, f"update {update.name} has delay {delay}"
            self.counts.most_delay = max(self.counts.most_delay, (delay + 1) / self.settings.delay_bound)
        assert self.scheduler.version == plan.version + len(commits)
        for groups, destination in ((plan.groups, "server"), (plan.replica, "replica")):
            for group in groups:
                for transfer in group.transfers:
                    self.check_transfer(transfer, group.aggregator or destination, now)
                if group.last is not None:
                    assert len(group.transfers) > 1, "an aggregator for one update"
                    twice = 1 if self.momentum == 0 else 2
                    assert group.last.size == twice * max(u.size for u in group.updates)
                    assert group.last.path == self.network.path(group.aggregator, destination)
                    assert group.last.start >= max(t.end for t in group.transfers)
                    self.keep(group.last, now)
        self.server_order += commits
        self.replica_order += _in_order(plan.replica)
        self.counts.committed += len(commits)
        self.counts.dropped.update(d.reason.name for d in plan.dropped)
        self.counts.aggregated += sum(len(g.transfers) for g in plan.groups if g.last is not None)
        self.counts.replicated += sum(len(g.transfers) for g in plan.replica)
        self.counts.held += len(plan.held)

    def check_transfer(self, transfer: Transfer, destination: str, now: int) -> None:
        update, reservation = transfer.update, transfer.reservation
        assert reservation.path == self.network.path(update.worker, destination)
        assert reservation.size == update.size and update == self.added[update.name]
        assert reservation.start >= max(now, update.ready)
        self.keep(reservation, now)

    def keep(self, reservation: Reservation, now: int) -> None:
        pieces = reservation.pieces
        if reservation.path:
            moved = sum((end - begin) * rate for begin, end, rate in pieces)
            assert 0 <= moved - reservation.size * NANOSECONDS < pieces[-1][2], "not all bytes, or too many"
            assert reservation.start <= pieces[0][0] and pieces[-1][1] == reservation.end
            assert all(a[1] <= b[0] for a, b in itertools.pairwise(pieces))
        else:
            assert not pieces and reservation.end == reservation.start
        self.made[id(reservation)] = now
        self.reservations.append(reservation)

    def check_links(self) -> None:
        """No link-second is reserved twice: a batch's transfers and all planned before fit the rate that it knew."""
        events = collections.defaultdict(list)
        for reservation in self.reservations:
            batch = self.made[id(reservation)]
            for link in reservation.path:
                for begin, end, rate in reservation.pieces:
                    events[link] += [(begin, batch, rate), (end, batch, -rate)]
        for link, changes in events.items():
            used: collections.Counter[int] = collections.Counter()  # by batch
            for time, at_once in itertools.groupby(sorted(changes), key=lambda change: change[0]):
                for _, batch, rate in at_once:
                    used[batch] += rate
                    if used[batch] == 0:
                        del used[batch]
                if used:
                    known = [rate for since, rate in self.capacity[link] if since <= max(used)][-1]
                    assert used.total() <= known, f"link {link} at {time}: {used.total()} of {known}"
            assert not used

    def check_replica(self) -> None:
        """The same order at both, and the true divergence is below the bound at each commit of the server."""
        names = [u.name for _, u in self.server_order]
        got = [u.name for _, u in self.replica_order]
        assert got == names[: len(got)], "the replica has another order"
        assert sorted(set(names)) == sorted(names), "an update is committed twice"
        assert [u.name for u in self.scheduler.replica.pending] == names[len(got) :]
        server = _Model(self.momentum)
        replica = _Model(self.momentum)
        arrived = 0
        time = 0
        for committed, update in self.server_order:
            time = max(time, committed)
            server.apply(self.vectors[update.name])
            while arrived < len(got) and arrived < server.version and self.replica_order[arrived][0] <= time:
                replica.apply(self.vectors[got[arrived]])
                arrived += 1
            true = _norm(server.weights - replica.weights)
            assert true <= self.bound * (1 + 1e-9), f"the replica is {true} away after update {update.name}"
            self.counts.most_divergence = max(self.counts.most_divergence, true / self.bound)
        pending = [self.vectors[name] for name in names[len(got) :]]
        for vector in got[arrived:]:
            replica.apply(self.vectors[vector])
        estimate = self.scheduler.replica.divergence()
        ahead = _Model(self.momentum, replica)
        for vector in pending:
            ahead.apply(vector)
        true = _norm(ahead.weights - replica.weights)
        assert true <= estimate * (1 + 1e-9) + 1e-12
        assert estimate <= self.bound


class _Model:
    def __init__(self, momentum: float, like: _Model | None = None) -> None:
        self.momentum = momentum
        self.weights = np.zeros(DIMENSIONS) if like is None else like.weights.copy()
        self.history = np.zeros(DIMENSIONS) if like is None else like.history.copy()
        self.version = 0

    def apply(self, update: np.ndarray) -> None:
        self.history = self.momentum * self.history + update
        self.weights = self.weights + self.history
        self.version += 1


def _in_order(groups) -> list[tuple[int, Update]]:
    got, time = [], 0
    for group in groups:
        time = max(time, group.end)
        got += [(time, u) for u in group.updates]
    return got


def _norm(vector: np.ndarray) -> float:
    return math.sqrt(float(vector @ vector))
