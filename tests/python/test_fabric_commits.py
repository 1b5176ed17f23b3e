"""What a server and its replica commit: the plan's order, each update once, sums that equal single commits, and a log
whose replay gives the same bits."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from jaxina.errors import InvalidArgumentError, JobRejectedError, MismatchError
from jaxina.fabric.commit_log import CommitLog, replay
from jaxina.fabric.follower import Follower
from jaxina.fabric.gathering import Gathering
from jaxina.fabric.ledger import Ledger
from jaxina.fabric.model import Model, Optimizer, vector_of
from jaxina.fabric.turns import Arrived, Commit, Expected, Lost

PLAIN = Optimizer()
OPTIMIZERS = [PLAIN, Optimizer(0.5), Optimizer(1, 0.9), Optimizer(0.7, 0.9, True)]


def expected(*names, version=0, norm=1.0):
    return [Expected(name, version, 8, norm) for name in names]


def arrived(*names, is_sum=False):
    return Arrived(names, np.zeros(2, np.float32), b"", is_sum or len(names) > 1)


def told(decisions):
    """Names of commits as tuples, of lost updates as numbers."""
    return [d.name if isinstance(d, Lost) else d.arrived.names for d in decisions]


def planned(*names, **settings) -> Ledger:
    ledger = Ledger(**settings)
    ledger.plan(0, expected(*names))
    return ledger


@pytest.mark.parametrize("order", list(itertools.permutations([1, 2, 3, 4])))
def test_commits_follow_the_plan_whatever_comes_first(order):
    ledger = planned(1, 2, 3, 4)
    done = []
    for name in order:
        ledger.arrive(arrived(name))
        done += told(ledger.decide())
        assert done == [(n,) for n in (1, 2, 3, 4) if all(m in order[: order.index(name) + 1] for m in range(1, n + 1))]
    assert ledger.next == ledger.planned == 4


def test_an_update_whose_worker_is_gone_is_lost_at_its_turn():
    ledger = planned(1, 2, 3)
    ledger.arrive(arrived(3))
    ledger.abandon([2])
    assert told(ledger.decide()) == []
    ledger.arrive(arrived(1))
    assert told(ledger.decide()) == [(1,), 2, (3,)]


def test_an_update_that_has_come_counts_even_if_its_worker_is_gone():
    ledger = planned(1)
    ledger.arrive(arrived(1))
    ledger.abandon([1])
    assert told(ledger.decide()) == [(1,)]


def test_a_sum_takes_the_turns_of_its_updates_and_of_those_that_it_lacks():
    ledger = planned(1, 2, 3, 4)
    ledger.arrive(arrived(2, 4))
    assert told(ledger.decide()) == []
    ledger.arrive(arrived(1))
    (first, second) = ledger.decide()
    assert told([first]) == [(1,)]
    assert isinstance(second, Commit) and second.committed == (True, False, True)


def test_two_ways_of_one_update():
    """Whatever comes first counts, and the other is refused."""
    ledger = planned(1, 2, 3)
    ledger.arrive(arrived(2))
    for names in [(2,), (1, 2), (2, 3)]:
        with pytest.raises(JobRejectedError, match="duplicate"):
            ledger.check(names, 0, 8, None if len(names) == 1 else 8)
        with pytest.raises(JobRejectedError, match="duplicate"):
            ledger.arrive(arrived(*names))
    with pytest.raises(JobRejectedError, match="between"):
        ledger.arrive(arrived(1, 3))
    ledger.arrive(arrived(1))
    assert told(ledger.decide()) == [(1,), (2,)]
    for names in [(1,), (2, 3)]:
        with pytest.raises(JobRejectedError, match="is over"):
            ledger.check(names, 0, 8, None if len(names) == 1 else 8)


def test_what_is_not_planned_so_is_refused():
    ledger = Ledger()
    ledger.plan(0, [Expected(1, 5, 8), Expected(2, 6, 8)])
    with pytest.raises(JobRejectedError, match="no update 0x9 is planned"):
        ledger.check([9], 5, 8, None)
    for version in (4, 6):
        with pytest.raises(MismatchError, match=f"of version {version}, and the plan 5"):
            ledger.check([1], version, 8, None)
    with pytest.raises(MismatchError, match="of version 5, and the plan 6"):
        ledger.check([1, 2], 5, 8, 8)
    with pytest.raises(InvalidArgumentError, match="7 bytes, and the plan 8"):
        ledger.check([1], 5, 7, None)
    with pytest.raises(InvalidArgumentError, match="8 bytes, and the plan 16"):
        ledger.check([1, 2], 6, 8, 16)
    with pytest.raises(InvalidArgumentError, match="not in the order"):
        ledger.check([2, 1], 6, 8, 8)
    ledger.check([1, 2], 6, 8, 8)


def test_turns_may_be_told_twice_but_not_be_missing():
    ledger = planned(1, 2)
    ledger.plan(1, expected(2, 3))
    assert ledger.planned == 3
    with pytest.raises(MismatchError, match="turns are missing"):
        ledger.plan(5, expected(6))


def test_a_commit_waits_for_the_replica():
    ledger = planned(1, 2, 3, bound=2.0)
    for name in (1, 2, 3):
        ledger.arrive(arrived(name))
    assert told(ledger.decide()) == [(1,), (2,)] and ledger.divergence == 2.0
    ledger.replica_has(1)
    assert told(ledger.decide()) == [(3,)] and ledger.divergence == 2.0


def test_a_long_update_waits_until_the_replica_has_it():
    ledger = Ledger(bound=2.0)
    ledger.plan(0, expected(1, norm=3.0))
    ledger.arrive(arrived(1))
    assert told(ledger.decide()) == []
    ledger.replica_has(1)
    assert told(ledger.decide()) == [(1,)] and ledger.divergence == 0


def test_what_the_replica_can_never_get_the_server_does_not_commit_either():
    ledger = Ledger(bound=2.0)
    ledger.plan(0, expected(1, norm=3.0))
    ledger.arrive(arrived(1))
    ledger.abandon([1])
    assert told(ledger.decide()) == [1]


def test_without_its_replica_the_server_goes_on():
    ledger = Ledger(bound=2.0)
    ledger.plan(0, expected(1, norm=3.0))
    ledger.arrive(arrived(1))
    ledger.stop_waiting_for_replica()
    assert told(ledger.decide()) == [(1,)]


def follower(*names) -> Follower:
    made = Follower()
    made.plan(0, expected(*names))
    return made


def test_a_replica_follows_the_server():
    replica = follower(1, 2, 3)
    replica.arrive(arrived(2))
    replica.judge([True, False])
    assert told(replica.decide()) == [] and replica.received == 0
    replica.arrive(arrived(1))
    assert replica.received == 2
    assert told(replica.decide()) == [(1,), 2], "the server has lost it, so the replica leaves it out"
    replica.arrive(arrived(3))
    assert replica.received == 3 and told(replica.decide()) == []


def test_a_replica_that_cannot_get_an_update_gets_the_model():
    replica = follower(1, 2)
    replica.arrive(arrived(2))
    replica.judge([True])
    assert not replica.behind
    replica.abandon([1])
    assert replica.behind
    replica.load(1)
    replica.judge([True])
    assert not replica.behind and told(replica.decide()) == [(2,)]


def test_a_model_from_the_future_of_the_plan():
    """The server's model may come before the plan and the decisions of its turns."""
    replica = Follower()
    replica.load(2)
    replica.plan(0, expected(1, 2, 3))
    replica.arrive(arrived(3))
    replica.judge([True, True])
    assert told(replica.decide()) == [] and replica.next == 2
    replica.judge([True])
    assert told(replica.decide()) == [(3,)]


def test_a_replica_that_takes_over_decides_on_all_that_is_planned():
    replica = follower(1, 2, 3, 4)
    replica.judge([True, False])
    for name in (2, 4):
        replica.arrive(arrived(name))
    assert told(replica.take_over()) == [1, 2, 3, (4,)]
    assert replica.next == replica.planned == 4


def vectors(count, seed=0, elements=50):
    draw = np.random.default_rng(seed)
    return [draw.normal(size=elements).astype(np.float32) for _ in range(count)]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("count", [1, 2, 7])
def test_a_sum_does_what_single_commits_do(optimizer, count):
    one, many = (Model(vectors(1)[0], optimizer) for _ in range(2))
    first, *updates = vectors(count + 1, seed=1)
    for model in (one, many):
        model.commit(optimizer.sum([first]), 1, 1)  # so that there is a history
    for update in updates:
        one.commit(optimizer.sum([update]), 1, 1)
    many.commit(optimizer.sum(updates), count, count)
    np.testing.assert_allclose(many.weights, one.weights, rtol=1e-5, atol=1e-5)
    if optimizer.momentum:
        np.testing.assert_allclose(many.history, one.history, rtol=1e-5, atol=1e-5)
    assert many.version == one.version == 1 + count


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_single_commits_are_the_optimizers_formula(optimizer):
    model = Model(vectors(1)[0], optimizer)
    weights, history = vectors(1)[0].astype(np.float64), np.zeros(50)
    for update in vectors(5, seed=1):
        model.commit(optimizer.sum([update]), 1, 1)
        history = optimizer.momentum * history + update
        weights += optimizer.learning_rate * (update + optimizer.momentum * history if optimizer.nesterov else history)
    np.testing.assert_allclose(model.weights, weights, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_length_of_steps_is_bounded_by_that_of_the_updates(optimizer):
    """What the bound on the replica's divergence is planned with."""
    model, length = Model(vectors(1)[0], optimizer), 0.0
    for update in vectors(20, seed=2):
        before = model.weights.copy()
        model.commit(optimizer.sum([update]), 1, 1)
        length = optimizer.momentum * length + float(np.linalg.norm(update))
        assert np.linalg.norm(model.weights - before) <= optimizer.longest_step * length * (1 + 1e-5)


@pytest.mark.parametrize("settings", [{"learning_rate": 0.0}, {"momentum": 1.0}, {"nesterov": True}])
def test_optimizers_that_are_none_are_refused(settings):
    with pytest.raises(InvalidArgumentError):
        Optimizer(**settings)


def test_a_gathering_adds_each_once_in_the_order_of_turns():
    one, _, three = vectors(3)
    gathering = Gathering([Expected(i, version, 8) for i, version in ((1, 4), (2, 9), (3, 6))], PLAIN)
    gathering.arrive(3, three)
    gathering.arrive(1, one)
    with pytest.raises(JobRejectedError, match="come already"):
        gathering.arrive(1, one)
    with pytest.raises(JobRejectedError, match="not added here"):
        gathering.check(7, 4, 8)
    with pytest.raises(MismatchError, match="of version 8, and the plan 9"):
        gathering.check(2, 8, 8)
    with pytest.raises(InvalidArgumentError, match="9 bytes"):
        gathering.check(2, 9, 9)
    assert not gathering.complete
    gathering.abandon([1, 2])
    with pytest.raises(JobRejectedError, match="not waited for"):
        gathering.check(2, 9, 8)
    names, version, total = gathering.sum()
    assert (names, version) == ((1, 3), 6)
    np.testing.assert_array_equal(total, one + three)


@pytest.fixture
def log(tmp_path):
    """A log of some commits, and the model after them."""
    optimizer = Optimizer(0.7, 0.9, True)
    model = Model(vectors(1)[0], optimizer)
    file = tmp_path / "commits"
    written = CommitLog(file, model, "none")
    updates = vectors(6, seed=3)
    for i, update in enumerate(updates[:3]):
        model.commit(optimizer.sum([update]), 1, 1)
        written.committed(Arrived((i + 1,), update, update.tobytes()), model.version)
    model.skip()
    written.lost(4, model.version)
    total = optimizer.sum(updates[3:])
    model.commit(total, 3, 4)
    written.committed(Arrived((5, 6, 8), total, total.tobytes(), True), model.version)
    written.close()
    return file, model


def test_a_replay_gives_the_same_bits(log):
    file, model = log
    again = replay(file)
    assert again.version == model.version == 8
    assert again.weights.tobytes() == model.weights.tobytes() and again.history.tobytes() == model.history.tobytes()


def test_a_log_that_ends_in_the_middle_of_a_frame_gives_what_is_whole(log):
    file, _ = log
    file.write_bytes(file.read_bytes()[:-1])
    assert replay(file).version == 4


def test_a_changed_log_is_refused(log):
    file, _ = log
    text = bytearray(file.read_bytes())
    text[-9] ^= 1
    file.write_bytes(text)
    with pytest.raises(InvalidArgumentError, match="changed on its way"):
        replay(file)


def test_what_is_no_log_is_refused(log, tmp_path):
    file, model = log
    with pytest.raises(InvalidArgumentError, match="cannot begin the log"):
        CommitLog(file, model, "none")
    with pytest.raises(InvalidArgumentError, match="cannot read the log"):
        replay(tmp_path / "nowhere")
    (tmp_path / "other").write_text("hello\n")
    with pytest.raises(InvalidArgumentError, match="no log"):
        replay(tmp_path / "other")


def test_a_log_holds_no_secret(log):
    file, _ = log
    from jaxina.fabric.transfer.frame import MAGIC, START_BYTES, header_bytes, names_in, unpack

    text = file.read_bytes()
    begin = text.index(MAGIC)
    length = header_bytes(names_in(text[begin : begin + START_BYTES]))
    assert unpack(text[begin : begin + length], 0).secret == 0


def test_a_state_of_another_model_is_refused():
    model = Model(vectors(1)[0], PLAIN)
    with pytest.raises(InvalidArgumentError, match="not that of 50 weights"):
        model.load(bytes(4 * 51), 3)
    with pytest.raises(InvalidArgumentError, match="no float32"):
        vector_of(bytes(5))
    with pytest.raises(InvalidArgumentError, match="float32 vector"):
        Model(np.zeros(3), PLAIN)
