"""What switches do for jobs that they did not make: real services and data planes in one process."""

import threading

import pytest
from control_fakes import eventually
from rich.console import Console

from jaxina import _native
from jaxina.cli.status import render
from jaxina.control import control_pb2 as pb
from jaxina.control import limits
from jaxina.control.assistance import Assistance, Helpers
from jaxina.control.client import SwitchClient
from jaxina.control.server import ControlServer
from jaxina.control.switch_planes import SwitchPlanes
from jaxina.errors import InvalidArgumentError, JobRejectedError, SwitchUnreachableError

SHAPE = _native.JobShape(devices=2, workers=2, slots=16, block_size=256, blocks_per_chunk=1)
SERVERS = [("127.0.0.1", 40001), ("127.0.0.1", 40002)]


class Switch:
    """A switch that can be started again at its address."""

    def __init__(self, threads=1, bind="127.0.0.1:0"):
        self.plane = _native.SoftwareSwitch("127.0.0.1", threads, 0.0, 0, entries=16)
        self.service = ControlServer(SwitchPlanes(self.plane, None), bind, ask_every=0.0)
        self.address = self.service.address

    def jobs(self):
        return set(self.plane.statistics()["jobs"])

    def stop(self):
        self.service.stop()
        self.plane.stop()


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

    def make(*switches):
        made.append(Helpers([switch.address for switch in switches], 5, None))
        return made[-1]

    yield make
    for one in made:
        one.close()


def request(**changes):
    fields = {"job": 7, "secret": 1, "workers": 2, "devices": 2, "slots": 16, "block_size": 256, "blocks_per_chunk": 1}
    return pb.AssistRequest(**{**fields, **changes})


def combining(host="127.0.0.1", port=40001, **changes):
    return request(combine=pb.Combine(servers=[pb.DataAddress(host=host, port=port)]), **changes)


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
    helper = helpers(switch)
    assert helper.data_addresses() == [("127.0.0.1", switch.plane.ports[0])]
    helper.combine(7, 1, SHAPE, SERVERS)
    helper.combine(8, 1, SHAPE, SERVERS)
    assert eventually(lambda: switch.jobs() == {7, 8})
    helper.release(7)
    assert eventually(lambda: switch.jobs() == {8})
    helper.close()
    assert eventually(lambda: not switch.jobs())


def test_a_switch_that_was_away_is_asked_again(switches, helpers, caplog):
    first = switches()
    helper = helpers(first)
    helper.combine(7, 1, SHAPE, SERVERS)
    assert eventually(lambda: first.jobs() == {7})
    first.stop()
    assert eventually(lambda: "does not combine job 7" in caplog.text)
    second = switches(bind=first.address)
    assert eventually(lambda: second.jobs() == {7}, 15)
    assert caplog.text.count("does not combine job 7") < 10, "it says so once for each reason"


def test_several_switches_take_slots_in_turn(switches, helpers):
    one, other = switches(threads=2), switches()
    ports = [*one.plane.ports, *other.plane.ports]
    addresses = [port for _, port in helpers(one, other).data_addresses()]
    assert addresses == [ports[0], ports[2], ports[1], ports[2]]


def test_servers_of_a_job_have_a_part_each(switches, helpers):
    one, other = switches(), switches()
    lost = []
    helper = helpers(one, other)
    window = helper.serve(7, 1, SHAPE, [("127.0.0.1", 40009)], lost.append)
    assert 0 < window <= 16
    assert one.jobs() == other.jobs() == {7}
    one.stop()
    assert eventually(lambda: len(lost) > 0) and isinstance(lost[0], SwitchUnreachableError)


def test_servers_with_different_threads_are_refused(switches, helpers):
    one, other = switches(threads=2), switches()
    with pytest.raises(InvalidArgumentError, match="equal --threads"):
        helpers(one, other).serve(7, 1, SHAPE, [], lambda error: None)
    assert one.jobs() == other.jobs() == set()


@pytest.mark.parametrize(
    "asked, error, message",
    [
        (combining(host="localhost"), InvalidArgumentError, "not a numeric address"),
        (combining(port=0), InvalidArgumentError, "packets cannot be sent"),
        (combining(host="224.0.0.1"), InvalidArgumentError, "packets cannot be sent"),
        (combining(workers=0), InvalidArgumentError, "workers"),
        (combining(block_size=1024, blocks_per_chunk=8), JobRejectedError, "at most 9216"),
        (request(combine=pb.Combine()), InvalidArgumentError, "servers"),
        (request(serve=pb.Serve(index=2, of=2)), InvalidArgumentError, "no part 2 of 2"),
        (request(), InvalidArgumentError, "has a role"),
    ],
)
def test_bad_requests_are_refused(switches, asked, error, message):
    switch = switches()
    found = refusal(switch, asked)
    assert type(found) is error and message in found.message
    assert not switch.jobs()


def test_an_id_in_use_is_refused_and_the_job_that_has_it_stays(switches, helpers):
    switch = switches()
    helpers(switch).combine(7, 1, SHAPE, SERVERS)
    assert eventually(lambda: switch.jobs() == {7})
    assert "exists already" in refusal(switch, combining()).message
    assert switch.jobs() == {7}


def test_an_address_has_so_much_memory_as_a_server(switches, helpers, monkeypatch):
    monkeypatch.setattr(limits, "POOL_PER_ADDRESS", SHAPE.pool_bytes * 3 // 2)
    switch = switches()
    helpers(switch).serve(7, 1, SHAPE, [], lambda error: None)
    assert "with this one" in refusal(switch, request(job=8, serve=pb.Serve(index=0, of=1))).message


def test_a_switch_that_is_not_there_is_an_error_at_once():
    with pytest.raises(SwitchUnreachableError):
        Helpers(["127.0.0.1:1"], 0.5, None)


def test_closing_while_the_switch_is_away_does_not_wait(switches):
    switch = switches()
    helper = Helpers([switch.address], 5, None)
    helper.combine(7, 1, SHAPE, SERVERS)
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


def test_status_shows_what_a_switch_combines():
    counters = {"claims": 1_000, "joins": 3_000, "combined": 990, "collisions": 12, "passed_on": 7, "expired": 1}
    job = pb.AssistStatus(**{"from": "10.0.0.1"}, job=4_000_000_000, workers=4, role="combines", counters=counters)
    console = Console(width=80, record=True)
    reply = pb.StatusReply(assisted=[job], counters={"entries": 1024, "entries_held": 5})
    console.print(render("10.0.0.9:51000", reply, {}))
    text = console.export_text()
    for part in ("4000000000", "4 k", "990", "12", "combines", "10.0.0.1", "5 of 1,024 entries"):
        assert part in text, text
    assert "no jobs" not in text
