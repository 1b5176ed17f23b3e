"""`jaxina doctor`: what it finds wrong with a cluster, how hosts meet, and what probes measure."""

import contextlib
import dataclasses
import json
import os
import socket
import subprocess
import sys
import threading
import time

import pytest
from control_fakes import in_threads
from patience import PATIENCE

from jaxina.control.coordinator import address_of, listen
from jaxina.doctor import meeting as meeting_module
from jaxina.doctor.facts import Facts, own_facts
from jaxina.doctor.findings import BUFFER, problems
from jaxina.doctor.meeting import attend_meeting, host_meeting
from jaxina.doctor.probes import Measured, Responder, measure
from jaxina.errors import JaxinaError, JobRejectedError, MismatchError, NeverJoinedError, RankTakenError

LIMITS = {"net.core.rmem_max": BUFFER, "net.core.wmem_max": BUFFER}
TOKEN = "a-token-of-16-characters"
SECRET = bytes(16)


def host(node, **other):
    facts = Facts(
        node, f"h{node}", f"10.0.0.{node + 1}", "eth1", 1500, 7, 8, {"jaxina": "0.1.0", "jax": "0.10.2"}, LIMITS
    )
    return dataclasses.replace(facts, **other)


def way(**other):
    return dataclasses.replace(Measured("", 0.0, 1e-4, 1500, 0.0), **other)


def both(**other):
    return {(0, 1): way(**other), (1, 0): way()}


def test_nothing_is_wrong_with_a_good_cluster():
    assert problems([host(0), host(1)], both()) == []


@pytest.mark.parametrize(
    "code, hosts, measured, said, mend",
    [
        (
            "NAMES",
            [host(0), host(1, name="h0")],
            both(),
            "node 0 (10.0.0.1) and node 1 (10.0.0.2) have one name, h0",
            "hostnamectl",
        ),
        ("ADDRESSES", [host(0), host(1, address="10.0.0.1")], both(), "use one address", "JAXINA_INTERFACE"),
        (
            "VERSIONS",
            [host(0), host(1, versions={"jaxina": "0.1.0", "jax": "0.11"})],
            both(),
            "jax differs: 0.10.2 at node 0",
            "install",
        ),
        (
            "TCP",
            [host(0), host(1)],
            both(tcp="timed out"),
            "no connection from node 0 (h0, 10.0.0.1 of eth1) to node 1",
            "firewalls",
        ),
        (
            "UDP",
            [host(0), host(1)],
            both(latency_s=None, mtu=0, ahead_s=None, lost=1.0),
            "no packet arrives from node 0",
            "firewalls",
        ),
        ("LOSS", [host(0), host(1)], both(lost=0.05), "5% of small packets are lost from node 0", "ethtool"),
        (
            "MTU",
            [host(0, mtu=9000), host(1)],
            both(mtu=1500),
            "more than 1500 bytes vanish from node 0",
            "set the MTU of eth1 to 1500",
        ),
        (
            "BUFFERS",
            [host(0), host(1, limits={"net.core.rmem_max": 212992})],
            both(),
            "net.core.rmem_max is 212,992",
            "sysctl -w",
        ),
    ],
)
def test_what_is_wrong_is_named_with_what_mends_it(code, hosts, measured, said, mend):
    (problem,) = problems(hosts, measured)
    assert problem.code == code and said in problem.what and mend in problem.mend


def test_clocks_an_hour_apart_are_named_once():
    measured = {(0, 1): way(ahead_s=3600.0), (1, 0): way(ahead_s=-3600.0)}
    (problem,) = problems([host(0), host(1)], measured)
    assert problem.code == "CLOCKS" and "NTP" in problem.mend
    assert problem.what.startswith("the clock of node 1 (h1, 10.0.0.2 of eth1) is 3,600 s ahead of that of node 0")
    (other,) = problems([host(0), host(1)], {(1, 0): way(ahead_s=3600.0)})
    assert "3,600 s behind" in other.what


def test_a_probe_measures_what_there_is():
    responder = Responder("127.0.0.1")
    responder.secret = SECRET
    found = measure("127.0.0.1", "127.0.0.1", responder.udp, responder.tcp, 9000, SECRET)
    assert (found.tcp, found.lost, found.mtu) == ("", 0.0, 9000)
    assert 0 < found.latency_s < 1 and abs(found.ahead_s) < 1
    responder.stop()


def test_who_does_not_know_the_secret_gets_no_answer():
    responder = Responder("127.0.0.1")
    responder.secret = bytes(15) + b"x"
    found = measure("127.0.0.1", "127.0.0.1", responder.udp, responder.tcp, 1500, SECRET)
    assert found.tcp == "" and found.latency_s is None and found.mtu == 0
    responder.stop()


def test_nobody_there_is_found_out():
    responder = Responder("127.0.0.1")
    responder.stop()
    found = measure("127.0.0.1", "127.0.0.1", responder.udp, responder.tcp, 1500, SECRET)
    assert "refused" in found.tcp and found.lost == 1.0


class Meeting:
    """Nodes that meet on this host, each in a thread."""

    def __init__(self, listener):
        self.listener, self.address = listener, address_of(listener)

    def host(self, nodes, token=None, patience=20.0):
        return self._with_responder(
            0, lambda own, there: host_meeting(self.listener, nodes, own, there, token, patience)
        )

    def attend(self, node, nodes, token=None, patience=20.0):
        return self._with_responder(
            node, lambda own, there: attend_meeting(self.address, nodes, own, there, token, patience)
        )

    def _with_responder(self, node, part):
        responder = Responder("127.0.0.1")
        try:
            return part(own_facts(node, "127.0.0.1", responder.udp, responder.tcp), responder)
        except JaxinaError as error:
            return error
        finally:
            responder.stop()


@pytest.fixture
def meeting():
    with listen("127.0.0.1:0") as listener:
        yield Meeting(listener)


def test_hosts_meet_and_measure_each_other(meeting):
    result, *_ = in_threads(
        lambda: meeting.host(3, TOKEN), lambda: meeting.attend(1, 3, TOKEN), lambda: meeting.attend(2, 3, TOKEN)
    )
    hosts, measured = result
    assert [one.node for one in hosts] == [0, 1, 2]
    assert measured.keys() == {(a, b) for a in range(3) for b in range(3) if a != b}
    assert all(one.tcp == "" and one.latency_s is not None for one in measured.values())
    codes = {problem.code for problem in problems(hosts, measured)}
    assert {"NAMES", "ADDRESSES"} <= codes  # they are on one host


@pytest.mark.parametrize(
    "other, kind, said",
    [
        (lambda m: m.attend(1, 3, TOKEN), MismatchError, "--nodes 3, node 0 with 2"),
        (lambda m: m.attend(0, 2, TOKEN), RankTakenError, "two hosts are node 0"),
    ],
)
def test_who_does_not_belong_there_is_refused_on_both_sides(meeting, other, kind, said):
    for error in in_threads(lambda: meeting.host(2, TOKEN), lambda: other(meeting)):
        assert isinstance(error, kind) and said in error.message


def test_who_does_not_know_the_token_is_refused_at_once_and_named_in_the_end(meeting):
    hosted, refused = in_threads(
        lambda: meeting.host(3, TOKEN, patience=0.5), lambda: meeting.attend(1, 3, TOKEN + "x")
    )
    for error in (hosted, refused):
        assert isinstance(error, JobRejectedError) and "set JAXINA_TOKEN" in error.message
    assert "node 1, 2 of 3 did not come" in hosted.message


def test_who_does_not_know_the_token_does_not_end_the_meeting(meeting):
    def attend():
        return meeting.attend(1, 2, TOKEN + "x"), meeting.attend(1, 2, TOKEN)

    (hosts, _), (refused, met) = in_threads(lambda: meeting.host(2, TOKEN), attend)
    assert isinstance(refused, JobRejectedError) and met is None and len(hosts) == 2


def test_who_has_gone_may_come_again(meeting):
    """While another node is missing. Else the meeting might begin before it is known that this one has gone."""
    gone = threading.Event()

    def come_again():
        with socket.create_connection(meeting.listener.getsockname()) as connection:  # until Ctrl-C, say
            line = meeting_module._Line(connection, time.monotonic() + 20)
            line.receive()
            facts = dataclasses.asdict(own_facts(1, "127.0.0.1", 1, 1))
            line.send({"facts": facts, "nodes": 3, "proof": ""})
        gone.set()
        return meeting.attend(1, 3)

    def come_last():
        assert gone.wait(20)
        return meeting.attend(2, 3)

    (hosts, measured), *met = in_threads(lambda: meeting.host(3), come_again, come_last)
    assert met == [None, None] and hosts[1].udp != 1 and len(measured) == 6


def test_who_does_not_come_is_named(meeting):
    error = meeting.host(2, patience=0.3)
    assert isinstance(error, NeverJoinedError) and "node 1 of 2 did not come" in error.message


def test_nobody_at_the_coordinator_is_an_error():
    with listen("127.0.0.1:0") as listener:
        there = Meeting(listener)
    error = there.attend(1, 2, patience=0.3)
    assert isinstance(error, NeverJoinedError) and there.address in error.message


@pytest.mark.parametrize(
    "says",
    [b"GET / HTTP/1.0\r\n\r\n" + b"x" * 100_000 + b"\n", b"[" * 60_000 + b"\n", b'{"facts"', b""],
    ids=["HTTP", "deep", "a part", "nothing"],
)
def test_a_stranger_does_not_disturb_the_meeting(meeting, says, monkeypatch):
    monkeypatch.setattr(meeting_module, "_WELCOME", 0.5)
    with socket.create_connection(meeting.listener.getsockname()) as stranger:
        stranger.sendall(says)
        result, _ = in_threads(lambda: meeting.host(2, patience=8), lambda: meeting.attend(1, 2, patience=4))
        assert len(result[0]) == 2


def test_a_stranger_that_says_a_little_now_and_then_does_not_disturb_the_meeting(meeting, monkeypatch):
    monkeypatch.setattr(meeting_module, "_WELCOME", 0.5)
    with socket.create_connection(meeting.listener.getsockname()) as slow:

        def stranger():
            with contextlib.suppress(OSError):
                while slow.send(b"x"):
                    time.sleep(0.02)

        threading.Thread(target=stranger, daemon=True).start()
        result, _ = in_threads(lambda: meeting.host(2, patience=8), lambda: meeting.attend(1, 2, patience=4))
        assert len(result[0]) == 2


def test_the_command_says_what_to_mend():
    with listen("127.0.0.1:0") as free:
        address = address_of(free)
    command = [sys.executable, "-m", "jaxina.cli", "doctor", "--nodes", "2", "--coordinator", address, "--json"]
    environment = {**os.environ, "JAXINA_JOIN_TIMEOUT": "60"}
    other = threading.Thread(
        target=lambda: subprocess.run([*command, "--node", "1"], env=environment, capture_output=True, timeout=PATIENCE)
    )
    other.start()
    ran = subprocess.run([*command, "--node", "0"], env=environment, capture_output=True, text=True, timeout=PATIENCE)
    other.join()
    told = json.loads(ran.stdout)
    assert ran.returncode == 1
    assert len(told["hosts"]) == 2 and len(told["ways"]) == 2
    assert {"NAMES", "ADDRESSES"} <= {problem["code"] for problem in told["problems"]}
