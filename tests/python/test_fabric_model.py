"""What commits do to the model: sums that equal single commits, and a log whose replay gives the same bits."""

from __future__ import annotations

import numpy as np
import pytest

from jaxina.errors import InvalidArgumentError, JobRejectedError, MismatchError
from jaxina.fabric.commit_log import CommitLog, replay
from jaxina.fabric.gathering import Gathering
from jaxina.fabric.model import Model, Optimizer, model_of, vector_of
from jaxina.fabric.turns import Arrived, Expected

PLAIN = Optimizer()
OPTIMIZERS = [PLAIN, Optimizer(0.5), Optimizer(1, 0.9), Optimizer(0.7, 0.9, True)]


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
    with pytest.raises(InvalidArgumentError, match="51 numbers is not that of weights and their history"):
        model_of(bytes(4 * 51), OPTIMIZERS[2], 3)
    with pytest.raises(InvalidArgumentError, match="no float32"):
        vector_of(bytes(5))
    with pytest.raises(InvalidArgumentError, match="float32 vector"):
        Model(np.zeros(3), PLAIN)
