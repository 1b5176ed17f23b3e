"""What switches do for jobs that they did not make: real services and data planes in one process."""

import threading
import types

import pytest
from control_fakes import eventually
from control_processes import Switch
from rich.console import Console

from jaxina import _native
from jaxina.cli.status import render
from jaxina.control import control_pb2 as pb
from jaxina.control import limits, membership
from jaxina.control.assistance import Assistance, Helpers
from jaxina.control.client import SwitchClient
from jaxina.control.racks import Layout
from jaxina.control.roles import Child, Combine
from jaxina.errors import InvalidArgumentError, JobRejectedError, SwitchUnreachableError

SHAPE = _native.JobShape(devices=2, workers=2, slots=16, block_size=256, blocks_per_chunk=1)
SERVERS = (("127.0.0.1", 40001), ("127.0.0.1", 40002))
COMBINE = Combine(0, (Child((0,)), Child((1,))), SERVERS)
WITHOUT_SWITCHES = Layout(ways=[[]], way_of=[0, 0], groups=[], tops=[], senders_per_link=1)


@pytest.fixture
def switches():
    """A function that starts switches. They are stopped at the end."""
    started = []

    def start(*arguments, **options):
        started.append(Switch(*arguments, **options))
        return started[-1]

    yield start
    for one in started:
        one.stop()


@pytest.fixture
def helpers():
    """A function that makes Helpers. They are closed at the end."""
    made = []

    def make():
        made.append(Helpers(5, None))
        return made[-1]

    yield make
    for one in made:
        one.close()


def request(**changes):
    fields = {"job": 7, "secret": 1, "workers": 2, "devices": 2, "slots": 16, "block_size": 256, "blocks_per_chunk": 1}
    return pb.AssistRequest(**{**fields, **changes})


def combining(host="127.0.0.1", port=40001, children=(([0], None), ([1], None)), group=0, ways=1, **changes):
    upstream = [pb.DataAddress(host=host, port=port)]
    senders = [pb.Child(workers=workers, group=number) for workers, number in children]
    return request(combine=pb.Combine(group=group, children=senders, upstream=upstream, ways=ways), **changes)


def serving(index=0, of=1, groups=(), switches=(), **changes):
    addresses = [pb.DataAddress(host=host, port=port) for host, port in switches]
    found = [pb.Group(workers=group) for group in groups]
    return request(serve=pb.Serve(index=index, of=of, groups=found, switches=addresses), **changes)


def refusal(switch, asked):
    """The error with which the switch refuses."""
    with SwitchClient(switch.address, 5) as client:
        one = Assistance(client, asked, lambda error: None)
        try:
            one.reply(10)
        except Exception as error:
            return error
        finally:
            one.close()
    return None


def test_a_switch_combines_a_job_until_it_is_released(switches, helpers):
    switch = switches()
    helper = helpers()
    helper.combine(7, 1, SHAPE, {switch.address: COMBINE})
    helper.combine(8, 1, SHAPE, {switch.address: COMBINE})
    assert eventually(lambda: switch.jobs() == {7, 8})
    helper.release(7)
    assert eventually(lambda: switch.jobs() == {8})
    helper.close()
    assert eventually(lambda: not switch.jobs())


def test_a_switch_that_was_away_is_asked_again(switches, helpers, caplog):
    first = switches()
    helper = helpers()
    helper.combine(7, 1, SHAPE, {first.address: COMBINE})
    assert eventually(lambda: first.jobs() == {7})
    first.stop()
    assert eventually(lambda: "does not combine job 7" in caplog.text)
    second = switches(bind=first.address)
    assert eventually(lambda: second.jobs() == {7}, 15)
    assert caplog.text.count("does not combine job 7") < 10, "it says so once for each reason"


def test_a_switch_says_where_it_is_and_what_is_above_it(switches, helpers):
    switch = switches(threads=2, upstream="10.0.0.1:51000")
    found = helpers().find(switch.address)
    assert (found.control, found.host, found.ports) == (switch.address, "127.0.0.1", tuple(switch.plane.ports))
    assert found.upstream == "10.0.0.1:51000"


def test_servers_of_a_job_have_a_part_each(switches, helpers):
    one, other = switches(), switches()
    lost = []
    helper = helpers()
    found = [helper.find(one.address), helper.find(other.address)]
    layout = Layout([[]], [0, 0], groups=[[0, 1]], tops=[("127.0.0.1", 40009)], senders_per_link=2)
    window = helper.serve(7, 1, SHAPE, found, layout, lost.append)
    assert 0 < window <= 16
    assert one.jobs() == other.jobs() == {7}
    one.stop()
    assert eventually(lambda: len(lost) > 0) and isinstance(lost[0], SwitchUnreachableError)


def test_servers_with_different_threads_are_refused(switches, helpers):
    one, other = switches(threads=2), switches()
    helper = helpers()
    found = [helper.find(one.address), helper.find(other.address)]
    with pytest.raises(InvalidArgumentError, match="equal --threads"):
        helper.serve(7, 1, SHAPE, found, WITHOUT_SWITCHES, lambda error: None)
    assert one.jobs() == other.jobs() == set()


@pytest.mark.parametrize(
    "asked, error, message",
    [
        (combining(host="localhost"), InvalidArgumentError, "not a numeric address"),
        (combining(port=0), InvalidArgumentError, "packets cannot be sent"),
        (combining(host="224.0.0.1"), InvalidArgumentError, "packets cannot be sent"),
        (combining(workers=0), InvalidArgumentError, "workers"),
        (combining(block_size=1024, blocks_per_chunk=8), JobRejectedError, "at most 9216"),
        (combining(children=()), InvalidArgumentError, "at least one child"),
        (combining(children=[([], None)]), InvalidArgumentError, "at least one worker"),
        (combining(children=[([0, 0], 1)]), InvalidArgumentError, "none twice"),
        (combining(children=[([2], None)]), InvalidArgumentError, "worker 2 is not below 2"),
        (combining(children=[([2**32 - 1], None)]), InvalidArgumentError, "is not below 2"),
        (combining(children=[([0], None), ([0, 1], 1)]), InvalidArgumentError, "worker 0 is below two children"),
        (combining(children=[([0, 1], None)]), InvalidArgumentError, "needs the number"),
        (combining(children=[([0, 1], 255)]), InvalidArgumentError, "0 to 254, not 255"),
        (combining(children=[([0], 1), ([1], 1)]), InvalidArgumentError, "group 1 of the job is there twice"),
        (combining(children=[([0], 3)], group=3), InvalidArgumentError, "group 3 of the job is there twice"),
        (combining(ways=0), InvalidArgumentError, "1 to 4096 ways"),
        (combining(ways=4097), InvalidArgumentError, "1 to 4096 ways"),
        (combining(group=255), InvalidArgumentError, "0 to 254, not 255"),
        (request(combine=pb.Combine(children=[pb.Child(workers=[0])])), InvalidArgumentError, "servers"),
        (serving(index=2, of=2), InvalidArgumentError, "no part 2 of 2"),
        (serving(groups=[[]]), InvalidArgumentError, "at least one worker"),
        (serving(groups=[[0, 2]]), InvalidArgumentError, "worker 2 is not below 2"),
        (serving(groups=[[0, 1]] * 256), InvalidArgumentError, "at most 255 groups"),
        (serving(switches=[("x", 1)]), InvalidArgumentError, "not a numeric address"),
        (serving(switches=[("10.0.0.1", 1)] * 4097), InvalidArgumentError, "at most 4096"),
        (request(), InvalidArgumentError, "begins with a role"),
    ],
)
def test_bad_requests_are_refused(switches, asked, error, message):
    switch = switches()
    found = refusal(switch, asked)
    assert type(found) is error and message in found.message
    assert not switch.jobs()


def test_an_id_in_use_is_refused_and_the_job_that_has_it_stays(switches, helpers):
    switch = switches()
    helpers().combine(7, 1, SHAPE, {switch.address: COMBINE})
    assert eventually(lambda: switch.jobs() == {7})
    assert "exists already" in refusal(switch, combining()).message
    assert switch.jobs() == {7}


def create(client):
    return client.create_job(
        devices=2, workers=2, slots=16, block_size=256, blocks_per_chunk=1, join_timeout=60, heartbeat_timeout=60
    )


def test_a_stranger_who_takes_the_ids_after_a_jobs_keeps_nobody_from_making_the_next(switches, helpers):
    switch, helper = switches(), helpers()
    with SwitchClient(switch.address, 5) as client:
        first = create(client)
        for job in range(first.job + 1, first.job + 6):
            helper.combine(job % 2**32, 1, SHAPE, {switch.address: COMBINE})
        assert len(switch.jobs()) == 6
        assert create(client).job not in (first.job, first.job + 1)


def test_a_new_job_gets_no_id_of_a_job_that_the_switch_helps_with(switches, helpers, monkeypatch):
    switch = switches()
    drawn = iter([7, 7, 8, 1])  # ids, then a secret
    monkeypatch.setattr(membership, "secrets", types.SimpleNamespace(randbits=lambda bits: next(drawn)))
    helpers().combine(7, 1, SHAPE, {switch.address: COMBINE})
    with SwitchClient(switch.address, 5) as client:
        grant = create(client)
    assert (grant.job, grant.secret) == (8, 1) and switch.jobs() == {7, 8}


def test_an_address_has_so_much_memory_as_a_server(switches, helpers, monkeypatch):
    monkeypatch.setattr(limits, "POOL_PER_ADDRESS", SHAPE.pool_bytes * 3 // 2)
    switch = switches()
    helper = helpers()
    helper.serve(7, 1, SHAPE, [helper.find(switch.address)], WITHOUT_SWITCHES, lambda error: None)
    assert "with this one" in refusal(switch, serving(job=8)).message
    assert refusal(switch, combining(job=8)) is None, "that takes little"
    assert "with this one" in refusal(switch, combining(job=8, ways=4096)).message


def test_a_draining_switch_helps_no_other_job_and_ends_after_those_that_it_helps(switches):
    switch, drained = switches(), threading.Event()
    with SwitchClient(switch.address, 5) as client:
        helped = Assistance(client, combining(), lambda error: None)
        helped.reply(10)
        switch.service.drain(drained.set)
        assert eventually(lambda: client.status().draining)
        error = refusal(switch, combining(job=8))
        assert isinstance(error, JobRejectedError) and "draining" in str(error)
        assert len(client.status().assisted) == 1 and not drained.is_set()
        helped.close()
    assert drained.wait(60)


def test_a_switch_that_is_not_there_is_an_error_at_once():
    with pytest.raises(SwitchUnreachableError):
        Helpers(0.5, None).find("127.0.0.1:1")


def test_closing_while_the_switch_is_away_does_not_wait(switches):
    switch = switches()
    helper = Helpers(5, None)
    helper.combine(7, 1, SHAPE, {switch.address: COMBINE})
    assert eventually(lambda: switch.jobs() == {7})
    switch.stop()
    closing = threading.Thread(target=helper.close)
    closing.start()
    closing.join(5)
    assert not closing.is_alive()


def test_closing_while_a_call_begins_does_not_wait():
    closing = []

    class Call:
        def __init__(self):
            self.cancelled = threading.Event()

        def cancel(self):
            self.cancelled.set()

        def __iter__(self):
            self.cancelled.wait()
            return iter(())

    class Client:
        address = "10.0.0.1:1"

        def assist(self, requests):
            began.wait()
            closing.append(threading.Thread(target=one.close, daemon=True))
            closing[0].start()
            one._closing.wait()  # close() has found no call to cancel
            return Call()

    began = threading.Event()
    one = Assistance(Client(), combining(), lambda error: None)
    began.set()
    assert eventually(lambda: bool(closing) and closing[0].ident is not None)
    closing[0].join(5)
    assert not closing[0].is_alive()


def test_a_switch_says_how_many_workers_are_below_it(switches, helpers):
    rack, core = switches(), switches()
    shape = _native.JobShape(devices=4, workers=4, slots=16, block_size=256, blocks_per_chunk=1)
    racks = Combine(2, (Child((0, 1), 0), Child((2, 3), 1)), SERVERS)
    helpers().combine(7, 1, shape, {rack.address: COMBINE, core.address: racks})
    for switch, role in ((rack, "combines 2 of 4 workers"), (core, "combines 4 of 4 workers in 2 racks")):
        assert eventually(lambda s=switch: s.jobs() == {7})
        with SwitchClient(switch.address, 5) as client:
            assert [job.role for job in client.status().assisted] == [role]


def test_status_shows_what_a_switch_combines():
    counters = {"claims": 1_000, "joins": 3_000, "combined": 990, "collisions": 12, "passed_on": 7, "expired": 1}
    counters["marked"] = 77
    job = pb.AssistStatus(
        **{"from": "10.0.0.1"}, job=4_000_000_000, workers=4, role="combines 4 of 4", counters=counters
    )
    console = Console(width=80, record=True)
    reply = pb.StatusReply(assisted=[job], counters={"entries": 1024, "entries_held": 5}, upstream="core.example:51000")
    console.print(render("10.0.0.9:51000", reply, {}))
    text = console.export_text()
    for part in (
        "4000000000",
        "4 k",
        "990",
        "12",
        "job 4000000000: 77 packets were marked",
        "combines",
        "10.0.0.1",
        "5 of 1,024 entries",
        "below core.example:51000",
    ):
        assert part in text, text
    assert "no jobs" not in text
