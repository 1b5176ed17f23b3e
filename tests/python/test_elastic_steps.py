"""A team of one member in this process: its steps, its state on the way to newcomers, and who is refused."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time

import grpc
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from control_fakes import eventually, interrupting

import jaxina
import jaxina.elastic
from jaxina import _native, config, errors
from jaxina._native import GroupConfig
from jaxina._team_sums import runs
from jaxina.control import limits
from jaxina.control.bucket import Buckets
from jaxina.control.tls import tls_of
from jaxina.elastic import elastic_pb2 as pb
from jaxina.elastic import elastic_pb2_grpc
from jaxina.elastic.attendance import Attendance
from jaxina.elastic.keeper import Keeper
from jaxina.elastic.member import Member
from jaxina.elastic.membership import Rules
from jaxina.elastic.peer import Peer, fetch
from jaxina.elastic.roster import Roster
from jaxina.elastic.state import PART, described, digest_of, leaves_of, parts_of, restored


@pytest.fixture
def keeper():
    with Keeper(Roster(Rules(1)), "127.0.0.1:0") as running:
        yield running


def run(keeper, function, state, **options):
    return list(jaxina.elastic.steps(function, state, keeper=keeper.address, **options))


# ---- steps


def test_each_step_is_reported_once_and_in_order(keeper):
    @jax.jit
    def add(state):
        def body(carry, _):
            return carry + jaxina.elastic.all_reduce(jnp.float32(1)), None

        return jax.lax.scan(body, state, length=3)[0]

    def step(state, turn):
        return add(state), (turn.step, turn.rank, turn.size)

    done = run(keeper, step, jnp.float32(0), first=4, until=7)
    assert [(one.step, float(one.state), one.result) for one in done] == [
        (4, 3.0, (4, 0, 1)),
        (5, 6.0, (5, 0, 1)),
        (6, 9.0, (6, 0, 1)),
    ]
    assert not _native.running()


def test_leaving_early_leaves_nothing_behind(keeper):
    for done in jaxina.elastic.steps(lambda state, turn: (state + 1, None), jnp.zeros(3), keeper=keeper.address):
        if done.step == 2:
            break
    assert not _native.running()
    assert keeper.error is None
    with pytest.raises(errors.JobRejectedError, match="has finished"):
        run(keeper, lambda state, turn: (state, None), jnp.zeros(3))


def test_the_function_s_own_error_comes_out(keeper):
    def step(state, turn):
        if turn.step == 1:
            raise ZeroDivisionError("own")
        return jaxina.elastic.all_reduce(state), None

    with pytest.raises(ZeroDivisionError, match="own"):
        run(keeper, step, jnp.zeros(3))
    assert not _native.running()
    assert "left with" in str(keeper.error) and "ZeroDivisionError: own" in str(keeper.error)


def test_an_error_that_names_an_odd_file_comes_out_and_the_member_is_gone(keeper):
    """A file's name may have bytes that are no text. Python has them as characters that no message can carry."""

    def step(state, turn):
        raise ValueError("no image: \udcff.png")

    with pytest.raises(ValueError, match="no image: \udcff"):
        run(keeper, step, jnp.zeros(3))
    assert eventually(lambda: keeper.error is not None)
    assert r"ValueError: no image: \udcff.png" in str(keeper.error)


def test_sums_outside_of_a_step_are_refused(keeper):
    with pytest.raises(errors.NotInitializedError, match=r"outside of a step"):
        jaxina.elastic.all_reduce(jnp.ones(3))
    run(keeper, lambda state, turn: (jaxina.elastic.all_reduce(state), None), jnp.ones(3), until=1)
    with pytest.raises(errors.NotInitializedError, match=r"outside of a step"):
        jaxina.elastic.all_reduce(jnp.ones(3))


def test_a_donated_state_is_refused(keeper):
    donating = jax.jit(lambda state: state + 1, donate_argnums=0)
    with pytest.raises(errors.InvalidArgumentError, match="has donated the old state"):
        run(keeper, lambda state, turn: (donating(state), None), jnp.zeros(100_000))


@pytest.mark.parametrize("change", [lambda s: {"a": s["a"][:2]}, lambda s: {"a": s["a"] > 0}, lambda s: [s["a"]]])
def test_a_state_of_changing_shape_is_refused(keeper, change):
    with pytest.raises(errors.InvalidArgumentError, match="has changed the state's structure, shapes or dtypes"):
        run(keeper, lambda state, turn: (change(state), None), {"a": jnp.zeros(3)})


@pytest.mark.parametrize("dtype", ["bool", "float8_e4m3fn"])
def test_types_that_are_not_carried_are_refused(keeper, dtype):
    array = jnp.zeros(3, dtype)
    with pytest.raises(errors.UnsupportedTypeError, match=dtype):
        run(keeper, lambda state, turn: (state, jaxina.elastic.all_reduce(array)), jnp.zeros(3))


def test_a_program_for_several_devices_is_refused(keeper):
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("w",))
    if mesh.size == 1:
        pytest.skip("this process has one device")
    spec = jax.sharding.PartitionSpec("w")
    total = jax.jit(jax.shard_map(jaxina.elastic.all_reduce, mesh=mesh, in_specs=spec, out_specs=spec))
    with pytest.raises(errors.InvalidArgumentError, match="for one device of each"):
        run(keeper, lambda state, turn: (state, total(jnp.zeros(mesh.size))), jnp.zeros(3))


@pytest.mark.parametrize(
    "options, message",
    [
        ({"until": 0}, "until=0"),
        ({"first": 5, "until": 5}, "first=5"),
        ({"check_every": -1}, "check_every=-1"),
        ({"loss": 0.1}, "loss"),
    ],
)
def test_arguments_are_checked_at_once(options, message):
    with pytest.raises(errors.InvalidArgumentError, match=message):
        jaxina.elastic.steps(lambda state, turn: (state, None), jnp.zeros(3), keeper="127.0.0.1:9", **options)


def test_a_keeper_must_be_named(monkeypatch):
    monkeypatch.delenv("JAXINA_KEEPER", raising=False)
    with pytest.raises(errors.InvalidArgumentError, match="JAXINA_KEEPER"):
        jaxina.elastic.steps(lambda state, turn: (state, None), jnp.zeros(3))


def test_a_state_of_other_things_is_refused():
    with pytest.raises(errors.InvalidArgumentError, match=r"state\['f'\] is a str"):
        jaxina.elastic.steps(lambda state, turn: (state, None), {"f": "text"}, keeper="127.0.0.1:9")


def test_aggregators_that_a_team_cannot_use_are_refused():
    with pytest.raises(errors.InvalidArgumentError, match="not by udp"):
        next(
            iter(
                jaxina.elastic.steps(
                    lambda state, turn: (state, None), jnp.zeros(3), keeper="127.0.0.1:9", aggregator="udp"
                )
            )
        )


def test_a_team_within_a_job_is_refused(keeper):
    with jaxina.init(), pytest.raises(errors.InvalidArgumentError, match=r"jaxina\.shutdown"):
        run(keeper, lambda state, turn: (state, None), jnp.zeros(3))


def test_without_a_keeper_joining_ends():
    with pytest.raises(errors.SwitchUnreachableError, match=r"no keeper answers at 127\.0\.0\.1:9"):
        list(
            jaxina.elastic.steps(
                lambda state, turn: (state, None), jnp.zeros(3), keeper="127.0.0.1:9", join_timeout=0.3
            )
        )


# ---- attempts


def test_an_attempt_ends_only_when_all_its_runs_have():
    """Also those whose results nobody uses. They must not reach their sums in the next attempt."""

    @jax.jit
    def program(x):
        slow = jax.lax.fori_loop(0, 300, lambda _, y: jnp.tanh(y @ y), x)
        return jaxina.elastic.all_reduce(slow)

    inputs = jnp.eye(300)
    with runs.attempt([0], 0, 1):
        program(inputs).block_until_ready()  # compiles
    with runs.attempt([0], 0, 2):
        result = program(inputs)
        was_ready = result.is_ready()
    assert result.is_ready()
    assert not was_ready  # else the test shows nothing


def test_an_attempt_fails_if_a_sum_has_failed_though_nobody_looked():
    def ignore():
        with runs.attempt([0, 1], 0, 1), contextlib.suppress(Exception):
            jaxina.elastic.all_reduce(jnp.ones(3)).block_until_ready()

    with pytest.raises(Exception, match="NOT_INITIALIZED"):  # the engine is closed
        ignore()


@pytest.mark.parametrize("worker", [0, 1])
@pytest.mark.parametrize("how", ["abort", "shutdown"])
def test_a_sum_that_waits_for_others_to_join_can_be_ended(worker, how):
    """The others may have died before they joined, so that nothing tells of their death."""
    shape = config.resolve({}).shape(devices=2, workers=2)

    def connect(group):
        made = GroupConfig(shape=shape, worker=worker, local=[worker], job=1, secret=2, join_timeout_s=60.0)
        made.use_embedded(f"jaxina-test-{threading.get_native_id()}")
        return made

    caught = []

    def sum_alone():
        try:
            _native.all_reduce([0, 1], worker, np.ones(10, np.float32))
        except errors.JaxinaError as error:
            caught.append(error)

    _native.start(connect, lambda group, code, message: None)
    try:
        thread = threading.Thread(target=sum_alone)
        thread.start()
        time.sleep(0.3)
        assert not caught
        begun = time.monotonic()
        if how == "abort":
            _native.abort([], "WORKER_LOST", "the other one is gone")
            thread.join(30)
    finally:
        _native.shutdown()
    thread.join(30)
    assert time.monotonic() - begun < 5
    (error,) = caught
    assert isinstance(error, errors.WorkerLostError if how == "abort" else errors.ShutDownError)


# ---- the state


def trained():
    params = {"w": jnp.arange(6, dtype=jnp.float32).reshape(2, 3), "b": jnp.float32(2)}
    return {"params": params, "optimizer": optax.adam(1e-3).init(params), "key": jax.random.key(3), "step": 7}


def mixed():
    return [np.arange(5, dtype=np.int8), jnp.ones(3, jnp.bfloat16), 1.5, 3, np.float64(2), jnp.zeros((0, 4))]


def weak():
    return {"rate": jnp.asarray(0.1), "rates": jnp.full((2, 3), 0.5), "count": jnp.asarray(3), "strong": jnp.float32(1)}


def of_two_parts():
    return jnp.arange(PART // 2, dtype=jnp.float32)


def doubled(leaf):
    is_key = isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return jax.random.split(leaf)[0] if is_key else leaf + leaf


@pytest.mark.parametrize("make", [trained, mixed, weak, of_two_parts])
def test_a_state_travels_bit_by_bit(make):
    state = make()
    changed = jax.tree.map(doubled, state)
    parts = [bytes(part) for part in parts_of(leaves_of(changed))]
    assert max(map(len, parts)) <= PART
    got = restored(state, iter(parts))
    assert digest_of(got) == digest_of(changed)
    assert digest_of(got) != digest_of(state)
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(changed), strict=True):
        assert type(one) is type(other) and jax.typeof(one) == jax.typeof(other)
    for wrong in (parts[:-1] + [parts[-1][:-1]], [*parts, b"x"]):
        with pytest.raises(errors.MismatchError, match="bytes of state came"):
            restored(state, iter(wrong))


def test_types_are_weak_where_the_other_member_has_weak_ones():
    """A weak type may become strong in the first step. A newcomer's own state is as before it."""
    strong, before = jnp.float32(0.1), jnp.asarray(0.5)
    assert jax.typeof(before).weak_type and not jax.typeof(strong).weak_type
    for sent, own in ((strong, before), (before, strong)):
        got = restored([own], map(bytes, parts_of([sent])))[0]
        assert jax.typeof(got) == jax.typeof(sent) and got == sent
    assert digest_of(jnp.asarray(0.5)) == digest_of(jnp.float32(0.5))


def test_what_differs_in_structure_differs_in_words():
    one = {"a": jnp.zeros(3)}
    for other in ({"b": jnp.zeros(3)}, {"a": jnp.zeros(4)}, {"a": jnp.zeros(3, jnp.int32)}, [jnp.zeros(3)]):
        assert described(one) != described(other)
    assert described(one) == described({"a": np.ones(3, np.float32)})


@pytest.fixture
def peer():
    running = Peer("127.0.0.1", 0, "token", None, 60.0)
    yield running
    running.close()


def formed_with(peer, generation=2, secret=77):
    source = pb.FormedMember(number=0, place="host h, pid 1", address=peer.address)
    return pb.Formed(generation=generation, step=9, secret=secret, members=[source])


def test_a_newcomer_waits_until_the_other_member_is_there(peer):
    state = {"w": jnp.arange(1000.0)}
    threading.Timer(0.2, peer.offer, (formed_with(peer), state)).start()
    got = fetch(formed_with(peer), {"w": jnp.zeros(1000)}, 10.0, "token", None)
    assert digest_of(got) == digest_of(state)


@pytest.mark.parametrize("generation, secret", [(1, 77), (2, 78)])
def test_strangers_get_no_state(peer, generation, secret):
    peer.offer(formed_with(peer), jnp.zeros(3))
    with pytest.raises(errors.JobRejectedError, match="does not offer"):
        fetch(formed_with(peer, generation, secret), jnp.zeros(3), 10.0, "token", None)
    with pytest.raises(errors.JobRejectedError, match="needs a token"):
        fetch(formed_with(peer), jnp.zeros(3), 10.0, None, None)


def test_a_member_goes_back_to_its_own_state_if_the_keeper_does_not_know_that_it_has_the_others(peer):
    """The member that was furthest has sent its state to this one, and died before the keeper heard of that."""
    roster = Roster(Rules(2, 1))
    for step in (10, 0):
        roster.join(pb.Join(host="h", pid=1, address=peer.address, step=step), 0.0)
    formed = roster.outbox.pop()[1].formed
    assert (formed.step, formed.has_state) == (10, False)
    peer.offer(formed, jnp.ones(3))
    settings = dataclasses.replace(config.resolve({}), token="token")
    newcomer = Member(settings, lambda state, turn: (state, None), jnp.zeros(3), first=0, until=0, check_every=0)
    newcomer._get_state(formed, peer, None)
    assert digest_of(newcomer.state) == digest_of(jnp.ones(3))
    roster.lost(0, "died", 0.0)
    roster.ready(1, formed.generation, 0.0)
    formed = roster.outbox.pop()[1].formed
    assert (formed.step, formed.has_state) == (0, True)
    newcomer._get_state(formed, peer, None)
    assert digest_of(newcomer.state) == digest_of(jnp.zeros(3)) and newcomer._step == 0


def test_strangers_who_wait_for_a_generation_that_never_comes_are_bounded(peer):
    most, state = limits.WAITING_PER_ADDRESS, jnp.arange(3.0)
    with grpc.insecure_channel(peer.address) as channel:
        ask = elastic_pb2_grpc.PeerStub(channel).State
        request, metadata = pb.StateRequest(generation=2**63, secret=1), (("jaxina-token", "token"),)
        waiting = [ask(request, metadata=metadata) for _ in range(most + 4)]
        assert eventually(lambda: sum(call.done() for call in waiting) == 4, 5)
        assert all("the most for one address" in call.details() for call in waiting if call.done())
        peer.offer(formed_with(peer), state)
        assert digest_of(fetch(formed_with(peer), state, 10.0, "token", None)) == digest_of(state)
    assert eventually(lambda: peer._service._waiting._total == 0)  # their connection is closed
    later = formed_with(peer, generation=3)
    threading.Timer(0.1, peer.offer, (later, state)).start()
    assert digest_of(fetch(later, state, 10.0, "token", None)) == digest_of(state)


def test_a_member_that_is_asked_too_often_refuses(peer):
    peer.offer(formed_with(peer), jnp.zeros(3))
    peer._service._calls._calls = Buckets(2, 0.001)
    for _ in range(2):
        fetch(formed_with(peer), jnp.zeros(3), 10.0, "token", None)
    with pytest.raises(errors.JobRejectedError, match=r"calls a second come from 127\.0\.0\.1"):
        fetch(formed_with(peer), jnp.zeros(3), 10.0, "token", None)


def test_a_state_that_nobody_needs_is_not_kept(peer):
    peer.offer(formed_with(peer), jnp.zeros(3))
    peer.withdraw(formed_with(peer))
    with pytest.raises(errors.JobRejectedError, match="does not offer"):
        fetch(formed_with(peer), jnp.zeros(3), 10.0, "token", None)


def test_a_transfer_that_is_cut_off_is_a_typed_error(peer):
    """More bytes than gRPC buffers, and a reader that stops in the middle, so the end comes within the transfer."""
    formed = formed_with(peer)
    peer.offer(formed, jnp.zeros(64 * PART // 4))
    stub = elastic_pb2_grpc.PeerStub(grpc.insecure_channel(peer.address))
    call = stub.State(pb.StateRequest(generation=2, secret=77), metadata=(("jaxina-token", "token"),))
    next(call)
    peer.close()
    with pytest.raises(grpc.RpcError):
        list(call)
    with pytest.raises(errors.WorkerLostError, match="did not come from member 0"):
        fetch(formed, jnp.zeros(64 * PART // 4), 10.0, "token", None)


# ---- joining


def test_a_member_that_is_interrupted_while_it_joins_is_gone():
    keeper = elastic_pb2_grpc.KeeperServicer()
    with interrupting(elastic_pb2_grpc.add_KeeperServicer_to_server, keeper, "Attend") as (address, over):
        with pytest.raises(KeyboardInterrupt):
            attend(address, timeout=60.0)
        assert over.wait(5), "its heartbeats go on"


# ---- who is refused by the keeper


def attend(address, token=None, tls=None, timeout=5.0):
    return Attendance(address, pb.Join(host="h", pid=1, address="a"), timeout, token, tls, lambda code, message: None)


def test_members_without_the_token_are_refused():
    with Keeper(Roster(Rules(1)), "127.0.0.1:0", token="right") as keeper:
        for token in (None, "wrong"):
            with pytest.raises(errors.JobRejectedError, match="this keeper needs a token"):
                attend(keeper.address, token)
        attend(keeper.address, "right").leave()


def test_a_stream_that_does_not_begin_with_a_join_is_refused(keeper):
    with grpc.insecure_channel(keeper.address) as channel:
        for first in (
            pb.MemberMessage(heartbeat=pb.Heartbeat()),
            pb.MemberMessage(join=pb.Join(terms={"a": "x" * 20000})),
        ):
            with pytest.raises(grpc.RpcError, match="begins with a Join of at most"):
                next(elastic_pb2_grpc.KeeperStub(channel).Attend(iter([first])))


def test_a_member_that_says_too_much_is_lost(keeper):
    attendance = attend(keeper.address)
    formed = attendance.formed()
    attendance.ready(formed.generation)
    assert attendance.goes(formed.generation)
    attendance._say(vote=pb.Vote(generation=1, digest=b"x" * 20000))
    with pytest.raises(errors.JaxinaError):
        attendance.committed(1, 0)
    attendance.leave()
    assert "sent a message of" in str(keeper.error)


def test_a_keeper_with_tls_refuses_members_without(tmp_path):
    from test_control_tls import Authority

    authority = Authority(tmp_path, "authority")
    own = tls_of(config.resolve(authority.issue()))
    with Keeper(Roster(Rules(1)), "127.0.0.1:0", tls=own) as keeper:
        attend(keeper.address, tls=own).leave()
    with (
        Keeper(Roster(Rules(1)), "127.0.0.1:0", tls=own) as keeper,
        pytest.raises(errors.AuthenticationError, match="serves only callers that use TLS"),
    ):
        attend(keeper.address)
