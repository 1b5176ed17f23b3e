"""A job in virtual time: the daemon's core and the hosts' cores, with messages and frames that take their time, are
sent twice or by two ways, and with hosts that die. What must hold is checked at each step and at the end."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable

import numpy as np
from fabric_service_hosts import ELEMENTS, PATIENCE, SECOND, Holder, Told, Worker

from jaxina.fabric.service import fabric_pb2 as pb
from jaxina.fabric.service.job import Job
from jaxina.fabric.service.settings import REPLICA, JobSettings


class World:
    """A job of some workers, a server and perhaps a replica. `run` raises AssertionError if a promise is broken.

    Args:
      seed: of all that is drawn.
      deaths: whether hosts die.
      gives_up: whether workers give up sending some updates to the replica.
    """

    def __init__(self, seed: int, deaths: bool = True, gives_up: bool = False) -> None:
        self.random = draw = random.Random(seed)
        self.deaths = deaths
        self.gives_up = gives_up
        replica = draw.random() < 0.6
        self.bound = draw.choice([4.0, 20.0]) if replica else None
        self.settings = JobSettings(
            workers=draw.randint(2, 6),
            rate=draw.choice([20, 100, 1000]),
            delay_bound=draw.choice([3, 8, 30]),
            groups=draw.randint(0, 3),
            divergence_bound=self.bound,
            patience=PATIENCE,
            seed=seed,
        )
        self.job = Job(self.settings, 1)
        self.now = 0
        self.events: list[tuple[int, int, Callable[[], None]]] = []
        self.order = itertools.count()
        self.latest: dict[tuple[int, bool], int] = {}  # messages to and from a host stay in order
        self.hosts: dict[int, object] = {}  # by number
        self.updates: dict[int, np.ndarray] = {}
        self.told: dict[int, Told] = {}
        self.dead: set[int] = set()
        self.aggregators_died = 0  # while they were to add updates
        self.most_divergence = 0.0  # of the bound
        self.one_model_died = False  # of two; no second one may

    # ---- time

    def after(self, delay: float, act: Callable[[], None]) -> None:
        heapq.heappush(self.events, (self.now + max(1, int(delay * SECOND)), next(self.order), act))

    def message(self, host: int, to_scheduler: bool, act: Callable[[], None]) -> None:
        due = self.now + int(self.random.choice([0.001, 0.01, 0.3]) * SECOND)
        due = max(due, self.latest.get((host, to_scheduler), 0) + 1)
        self.latest[host, to_scheduler] = due
        heapq.heappush(self.events, (due, next(self.order), act))

    def run(self, seconds: float) -> None:
        """Lets workers submit updates for so many seconds, and then waits until nothing is on its way."""
        self.quiet = int(seconds * SECOND)
        roles = [(pb.SERVER, 0)] + ([(pb.REPLICA, 0)] if self.bound is not None else [])
        for role, rank in roles:
            self.join(role, rank)
        for rank in range(self.settings.workers):
            self.join(pb.WORKER, rank)
        self.after(0.1, self.tick)
        if self.deaths:
            for _ in range(self.random.randint(0, 4)):
                self.after(self.random.uniform(0.5, seconds), self.kill_somebody)
        end = self.quiet + 40 * SECOND
        while self.events and self.events[0][0] <= end:
            self.now, _, act = heapq.heappop(self.events)
            act()
            self.post()
        self.check()

    def tick(self) -> None:
        self.job.tick(self.now)
        self.after(0.1, self.tick)

    # ---- hosts

    def join(self, role: pb.Role.ValueType, rank: int) -> None:
        elements = ELEMENTS if role == pb.SERVER else 0
        host = self.job.join(pb.Join(role=role, rank=rank, address="a:1", elements=elements), self.now)
        kind = Worker if role == pb.WORKER else Holder
        self.hosts[host.number] = kind(self, host)

    def kill_somebody(self) -> None:
        alive = [h for h in self.hosts.values() if h.host.number not in self.dead]
        victim = self.random.choice(alive)
        if victim.host.role == pb.WORKER and self.random.random() < 0.5:
            # Mostly one that has others' updates, in the middle of it.
            victim = max(alive, key=lambda h: len(getattr(h, "gatherings", ())))
        if isinstance(victim, Holder):
            if self.bound is None or self.one_model_died:
                return
            self.one_model_died = True
            if victim.serves and self.random.random() < 0.5:  # its model overtakes what it has said of it
                for holder in alive:
                    if isinstance(holder, Holder):
                        holder.load(0, *victim.held())
        elif any(len(gathering.names) > 1 for gathering, _ in victim.gatherings.values()):
            self.aggregators_died += 1
        self.dead.add(victim.host.number)
        self.latest.pop((victim.host.number, True), None)  # its death may be known before it is heard what it said last
        self.message(victim.host.number, True, lambda: self.job.left(victim.host, self.now))
        if victim.host.role == pb.WORKER and self.random.random() < 0.7:
            self.after(3, lambda: self.join(pb.WORKER, int(victim.host.name.removeprefix("worker-"))))

    def say(self, host, **message) -> None:
        def hear() -> None:
            if host.number not in self.left():
                self.job.hear(host, pb.HostMessage(**message), self.now)

        self.message(host.number, True, hear)

    def left(self) -> set[int]:
        return set(self.hosts) - {host.number for host in self.job.hosts}

    def post(self) -> None:
        for number, message in self.job.hosts.outbox:
            target = self.hosts[number]
            self.message(number, False, lambda t=target, m=message: t.host.number in self.dead or t.handle(m))
        self.job.hosts.outbox.clear()

    def send(self, sender: int, way, names, version, total, is_sum, still: Callable[[], bool]) -> None:
        """A frame, which takes its time, breaks and is sent again, or comes twice. Not from the dead."""
        if self.gives_up and way.host == REPLICA and self.random.random() < 0.05:
            return
        delay = max((p.end_ns for p in way.pieces), default=0) / SECOND + self.random.choice([0, 0, 0.2, 3])

        def arrive() -> None:
            if sender in self.dead or not still():
                return
            receiver = next((h for n, h in self.hosts.items() if h.host.name == way.host and n not in self.dead), None)
            again = self.random.random() < 0.1
            if receiver is None or again:
                self.after(0.2, arrive)
            if receiver is not None and receiver.take(names, version, total, is_sum) is None:
                self.after(0.2, arrive)  # the plan has not come yet

        self.after(delay, arrive)

    # ---- what must hold

    def check_divergence(self, server: Holder) -> None:
        """What would be lost with the server is at most the server's estimate, and that is within the bound."""
        estimate = server.turns.divergence
        assert estimate <= self.bound, "the replica is too far behind"
        replica = next((h for h in self.hosts.values() if isinstance(h, Holder) and not h.serves), None)
        if replica is None or replica.host.number in self.dead:
            return
        missing = [self.updates[name] for name in server.committed if not replica.has(name)]
        true = float(np.linalg.norm(np.sum(missing, axis=0, dtype=np.float64))) if missing else 0.0
        assert true <= estimate + 1e-9, "more would be lost than is estimated"
        self.most_divergence = max(self.most_divergence, true / self.bound)

    def check(self) -> None:
        serving = [h for h in self.hosts.values() if isinstance(h, Holder) and h.serves]
        server = next(h for h in serving if h.host.number not in self.dead)
        assert self.job.ended is None
        committed = server.committed
        assert len(set(committed)) == len(committed), "an update counts twice"
        total = sum((self.updates[name] for name in committed), np.zeros(ELEMENTS, np.float32))
        assert (server.model.weights == total).all(), "the model is not the sum of what was committed"
        assert server.model.version == server.turns.next == self.job.turns.decided
        for holder in serving:  # a server that is lost, and the replica that took over
            shared = [name for name in holder.committed if name in committed]
            assert shared == [name for name in committed if name in holder.committed], "another order"
        follower = next((h for h in self.hosts.values() if isinstance(h, Holder) and not h.serves), None)
        if follower is not None and follower.host.number not in self.dead:
            assert follower.committed == committed, "the replica has something else"
        for name in self.updates:
            owner = self.hosts[name >> 32]
            if owner.host.number not in self.dead:
                assert name in self.told, f"nobody says what became of update {name:#x}"
                assert name not in owner.own, f"nobody says that update {name:#x} is not needed any more"
            if name in self.told and self.told[name].committed:
                assert any(name in holder.committed for holder in serving)
            elif name in self.told:
                assert name not in committed, "an update was said to be dropped, and counts"
