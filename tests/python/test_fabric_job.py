"""The daemon's core: jobs in virtual time in which hosts die and frames come late, twice and by two ways; and what a
host may not say."""

from __future__ import annotations

import collections

import pytest
from fabric_service_world import World

from jaxina.errors import (
    InvalidArgumentError,
    JobRejectedError,
    MismatchError,
    RankTakenError,
    TooManyWorkersError,
    WorkerLostError,
)
from jaxina.fabric import recent_names
from jaxina.fabric.ledger import Ledger
from jaxina.fabric.service import fabric_pb2 as pb
from jaxina.fabric.service.job import Job
from jaxina.fabric.service.repairs import Repairs
from jaxina.fabric.service.settings import JobSettings
from jaxina.fabric.turns import Turns

SEEDS = 80
SECOND = 1_000_000_000


def run_all():
    for seed in range(SEEDS):
        World(seed).run(15)


def test_every_update_counts_once_or_not_at_all_and_its_worker_learns_which():
    counts: collections.Counter[str] = collections.Counter()
    for seed in range(SEEDS):
        world = World(seed)
        world.run(15)
        counts["committed"] += sum(told.committed for told in world.told.values())
        counts["lost"] += world.job.lost
        counts["added"] += world.job.added
        counts["died"] += len(world.dead)
        counts["replicas that took over"] += world.job.carrier.server == "replica"
        assert world.job.greatest_delay < world.settings.delay_bound
    assert len(counts) == 5 and min(counts.values()) >= 20, counts


def test_a_replica_follows_though_workers_give_up_sending_it_some_updates():
    for seed in range(SEEDS):
        World(seed, gives_up=True).run(15)


def _takes_duplicates(monkeypatch):
    def arrive(self, arrived):
        for name in arrived.names:
            if name in self._by_name:
                self._by_name[name].arrived = arrived

    monkeypatch.setattr(Ledger, "arrive", arrive)
    monkeypatch.setattr(Turns, "check", lambda self, names, version, size, sum_size: None)


def _commits_what_comes_first(monkeypatch):
    def decide(self):
        self._turns = collections.deque(sorted(self._turns, key=lambda turn: turn.arrived is None))
        yield from usual(self)

    usual = Ledger.decide
    monkeypatch.setattr(Ledger, "decide", decide)


def _waits_for_the_dead(monkeypatch):
    monkeypatch.setattr(Repairs, "_abandon", lambda self, names: None)


def _leaves_sums_of_the_dead(monkeypatch):
    monkeypatch.setattr(Repairs, "_ungroup", lambda self, group, now: None)


def _ignores_the_replica(monkeypatch):
    monkeypatch.setattr(Ledger, "_within_bound", lambda self, span: True)


def _forgets_to_release(monkeypatch):
    monkeypatch.setattr(Job, "_release", lambda self: None)


@pytest.mark.parametrize(
    "mutant",
    [
        _takes_duplicates,
        _commits_what_comes_first,
        _waits_for_the_dead,
        _leaves_sums_of_the_dead,
        _ignores_the_replica,
        _forgets_to_release,
    ],
)
def test_the_worlds_find_broken_rules(monkeypatch, mutant):
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        run_all()


class Small:
    """A job of two workers that has begun."""

    def __init__(self, replica: bool = False, **settings):
        bound = 10.0 if replica else None
        self.job = Job(JobSettings(workers=2, divergence_bound=bound, **settings), secret=7)
        self.server = self.join(pb.SERVER, elements=10)
        self.replica = self.join(pb.REPLICA) if replica else None
        self.workers = [self.join(pb.WORKER, rank) for rank in range(2)]
        self.said(self.workers[0])

    def join(self, role, rank=0, elements=0):
        return self.job.join(pb.Join(role=role, rank=rank, address="a:1", elements=elements), 0)

    def hear(self, host, now=0, **message):
        self.job.hear(host, pb.HostMessage(**message), now)

    def ready(self, host, count=1, version=0, size=40, norm=1.0):
        name = host.number << 32 | count
        self.hear(host, ready=pb.Ready(name=name, size=size, version=version, norm=norm))
        return name

    def said(self, host):
        """The messages to a host since the last call, and forgets those to others."""
        messages = [message for number, message in self.job.hosts.outbox if number == host.number]
        self.job.hosts.outbox.clear()
        return messages


def test_a_forged_version_is_refused():
    small = Small()
    name = small.ready(small.workers[0], version=3)
    (message,) = small.said(small.workers[0])
    assert message.refused.name == name and message.refused.code == "INVALID_ARGUMENT"
    assert "is of version 3, but the model has 0" in message.refused.message


@pytest.mark.parametrize("norm", [float("nan"), float("inf"), -1.0])
def test_an_update_whose_length_is_no_number_is_refused(norm):
    small = Small()
    small.ready(small.workers[0], norm=norm)
    assert small.said(small.workers[0])[0].refused.code == "INVALID_ARGUMENT"


def test_a_name_is_its_hosts_own():
    small = Small()
    ready = pb.Ready(name=small.workers[1].number << 32 | 1, size=40)
    with pytest.raises(JobRejectedError, match="another host's"):
        small.hear(small.workers[0], ready=ready)


def test_the_same_name_twice_is_refused():
    small = Small()
    small.ready(small.workers[0])
    small.said(small.workers[0])
    small.ready(small.workers[0])
    assert "there was an update" in small.said(small.workers[0])[0].refused.message


def test_names_are_known_as_long_as_somebody_needs_them_and_a_while_longer(monkeypatch):
    """A name that is over is forgotten in the end: a worker sends as many updates as it likes."""
    monkeypatch.setattr(recent_names, "REMEMBERED", 2)
    small = Small(replica=True)
    worker = small.workers[0]

    def announced_again():
        small.said(worker)
        small.ready(worker, 1)
        return [message.refused.message for message in small.said(worker)]

    small.ready(worker, 1)
    for count in (2, 3, 4):
        small.ready(worker, count)
    assert "there was an update" in announced_again()[0], "it waits for a plan"
    small.job.tick(0)
    assert "has a turn already" in announced_again()[0]
    small.hear(small.server, decided=pb.Decided(committed=[True] * 4))
    assert "has a turn already" in announced_again()[0], "the replica may need it"
    small.hear(small.replica, received=pb.Received(turns=4))
    assert announced_again() == []
    assert len(small.job.scheduler._known._names) == 2


def test_who_may_join():
    small = Small()
    with pytest.raises(TooManyWorkersError, match="worker 2 joins a job of 2"):
        small.join(pb.WORKER, 2)
    with pytest.raises(RankTakenError, match="there is a worker-1 already"):
        small.join(pb.WORKER, 1)
    with pytest.raises(JobRejectedError, match="takes no second one"):
        small.join(pb.SERVER, elements=10)
    with pytest.raises(InvalidArgumentError, match="0 elements"):
        Job(JobSettings(workers=1), 1).join(pb.Join(role=pb.SERVER, address="a:1"), 0)
    with pytest.raises(JobRejectedError, match="has no replica"):
        Job(JobSettings(workers=1), 1).join(pb.Join(role=pb.REPLICA, address="a:1"), 0)


def test_only_the_server_decides_and_only_on_what_is_planned():
    small = Small()
    with pytest.raises(InvalidArgumentError, match="worker-0 may not say 'decided'"):
        small.hear(small.workers[0], decided=pb.Decided(committed=[True]))
    with pytest.raises(MismatchError, match="not planned"):
        small.hear(small.server, decided=pb.Decided(committed=[True]))
    with pytest.raises(InvalidArgumentError, match="server may not say 'ready'"):
        small.hear(small.server, ready=pb.Ready(name=small.server.number << 32, size=4))


def test_the_job_ends_for_all_when_the_server_is_lost_without_a_replica():
    small = Small()
    small.job.left(small.server, 0)
    ends = [message.end for _, message in small.job.hosts.outbox]
    assert [end.code for end in ends] == ["WORKER_LOST", "WORKER_LOST"]
    assert isinstance(small.job.ended, WorkerLostError)
    with pytest.raises(JobRejectedError, match="the job has ended"):
        small.join(pb.WORKER, 0)


def test_a_server_that_fails_tells_all_why():
    small = Small()
    small.hear(small.server, leave=pb.Leave(code="SYSTEM", message="the disk is full"))
    small.job.left(small.server, 0)
    ends = [message.end for _, message in small.job.hosts.outbox]
    assert [(end.code, end.message) for end in ends] == [("SYSTEM", "server: the disk is full")] * 2


def test_the_replica_takes_the_place_of_a_server_that_fails():
    small = Small(replica=True)
    small.hear(small.server, leave=pb.Leave(code="SYSTEM", message="the disk is full"))
    small.job.left(small.server, 0)
    assert small.said(small.replica)[0].WhichOneof("kind") == "promote" and small.job.ended is None


def test_the_replica_is_promoted_at_once_and_models_come_from_it():
    small = Small(replica=True)
    request = small.workers[0].number << 32 | 1
    small.hear(small.workers[0], want=pb.Want(name=request))
    small.job.tick(0)
    assert small.said(small.server)[-1].give.name == request
    small.job.left(small.server, 1)
    assert small.said(small.replica)[0].WhichOneof("kind") == "promote"
    small.job.tick(2)
    assert small.said(small.replica)[-1].give.name == request, "what the lost server was to give is given again"


def test_a_late_update_is_waited_for_as_long_as_patience_lasts():
    small = Small(patience=2.0)
    name = small.ready(small.workers[0])
    small.job.tick(0)
    assert small.said(small.server)[0].turns.turns[0].name == name
    end = small.job.turns.open()[0].end
    small.job.tick(end + 2 * SECOND)
    assert not small.said(small.server)
    small.job.tick(end + 2 * SECOND + 1)
    assert list(small.said(small.server)[0].abandon.names) == [name]


def assert_the_replica_gets_what_comes_later(small):
    """The first worker dies after turn 0 is decided. The second one's update is sent to the replica nevertheless."""
    small.job.left(small.workers[0], 2)
    later = small.ready(small.workers[1], version=1)
    small.said(small.workers[1])
    small.job.tick(3)
    small.job.tick(SECOND)  # nothing else is to be planned, so the replica catches up
    sent = [message.send for message in small.said(small.workers[1])]
    assert ("replica", later) in [(send.way.host, send.name) for send in sent]


def test_a_lost_update_of_a_worker_that_is_gone_keeps_no_others_from_the_replica():
    """World 101051 found it: the replica then stayed behind for ever."""
    small = Small(replica=True, rate=1000)
    lost = small.ready(small.workers[0])
    small.job.tick(0)
    assert lost in [update.name for update in small.job.scheduler.replica.pending]
    small.hear(small.server, 1, decided=pb.Decided(committed=[False]))
    small.hear(small.replica, 1, received=pb.Received(turns=1))
    assert_the_replica_gets_what_comes_later(small)


def test_an_update_that_came_to_the_replica_with_the_model_keeps_no_others_from_it():
    """World 4270 found it: the scheduler still meant to send it there, and its worker was gone."""
    small = Small(replica=True, rate=1000)
    small.ready(small.workers[0])
    small.job.tick(0)
    assert len(small.job.scheduler.replica.pending) == 1
    small.hear(small.server, 1, decided=pb.Decided(committed=[True]))
    small.hear(small.replica, 1, received=pb.Received(turns=1))  # it has loaded the server's model
    assert_the_replica_gets_what_comes_later(small)


def test_the_model_is_given_to_the_replica_once_until_it_is_there_by_plan():
    small = Small(replica=True, rate=1000)
    there = 80 * SECOND // 1000  # 10 weights, and room for their history
    small.hear(small.replica, there - 1, behind=pb.Behind())
    assert not small.said(small.server)
    small.hear(small.replica, there, behind=pb.Behind())
    assert [message.give.whole for message in small.said(small.server)] == [True]


def test_a_replica_that_has_got_on_is_given_the_next_model_before_the_first_was_to_be_there():
    """World 101127 found it: the model came earlier than planned, and the replica asked for the next in vain."""
    small = Small(replica=True, rate=1000)
    small.ready(small.workers[0])
    small.job.tick(0)
    small.hear(small.server, 1, decided=pb.Decided(committed=[True]))
    small.hear(small.replica, 2, behind=pb.Behind())
    small.said(small.server)
    small.hear(small.replica, 3, received=pb.Received(turns=1))
    small.hear(small.replica, 4, behind=pb.Behind())
    assert [message.give.whole for message in small.said(small.server) if message.WhichOneof("kind") == "give"] == [
        True
    ]


def test_a_replica_that_lacks_the_update_of_a_worker_that_is_gone_is_reminded():
    """So that it asks again, if the model does not come for which it asked."""
    small = Small(replica=True, rate=1000, patience=2.0)
    name = small.ready(small.workers[0])
    small.job.tick(0)
    small.hear(small.server, 1, decided=pb.Decided(committed=[True]))
    small.job.left(small.workers[0], 2)
    end = small.job.turns.needed()[0].end
    for now in range(0, end + 5 * SECOND, SECOND // 10):
        small.job.tick(now)
    told = [
        list(message.abandon.names) for message in small.said(small.replica) if message.WhichOneof("kind") == "abandon"
    ]
    assert told == [[name]] * 3, "once by its death, and in each patience after it was to be there"


def test_nothing_is_planned_over_the_links_of_who_is_gone():
    small = Small()
    small.ready(small.workers[0])
    small.ready(small.workers[1])
    small.job.left(small.workers[0], 0)
    small.job.tick(0)
    (turns,) = [message.turns for message in small.said(small.server)]
    assert [turn.name >> 32 for turn in turns.turns] == [small.workers[1].number]


def test_rates_are_planned_with_from_the_next_batch_on():
    small = Small(rate=1000)
    small.job.links.set_rates("worker-0", 10, 20)
    small.ready(small.workers[0])
    small.job.tick(0)
    (send,) = [message.send for message in small.said(small.workers[0])]
    assert [(p.begin_ns, p.end_ns, p.bytes_per_s) for p in send.way.pieces] == [(0, 4 * SECOND, 10)]
    with pytest.raises(InvalidArgumentError, match="no host 'worker-9'"):
        small.job.links.set_rates("worker-9", 1, 1)
    with pytest.raises(InvalidArgumentError, match="negative"):
        small.job.links.set_rates("worker-0", -1, 1)


@pytest.mark.parametrize(
    "settings",
    [
        {"workers": 0},
        {"rate": 0},
        {"delay_bound": 0},
        {"groups": -1},
        {"divergence_bound": 0.0},
        {"divergence_bound": float("inf")},
        {"patience": 0.0},
        {"compressor": "nonsense"},
        {"compressor": "powersgd:4"},
    ],
)
def test_settings_that_make_no_job_are_refused(settings):
    with pytest.raises(InvalidArgumentError):
        JobSettings(**({"workers": 2} | settings))
