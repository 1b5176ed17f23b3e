"""The roll call of launched processes, over loopback TCP. Threads stand for the processes and the coordinator."""

import contextlib
import dataclasses
import errno
import functools
import socket
import struct
import subprocess
import sys
import threading
import time

import pytest
from certificates import Authority
from control_fakes import eventually, in_threads, serve_roll

from jaxina import config
from jaxina.control import roll, roll_call
from jaxina.control.coordinator import address_of, listen
from jaxina.control.roll import CALLERS, Roll
from jaxina.control.roll_call import MAX_LATE, Answer, answer_roll, look_at_job
from jaxina.control.tls import tls_of
from jaxina.control.topology import Place
from jaxina.errors import (
    AuthenticationError,
    InvalidArgumentError,
    MismatchError,
    NeverJoinedError,
    RankTakenError,
)

SERVICE = "10.1.2.3:4567"


@pytest.fixture
def coordinator():
    """A function that starts a coordinator for so many processes, with or without TLS. It returns the coordinator's
    address and a list of the calls to its service."""
    with contextlib.ExitStack() as stack:

        def start(processes, tls=None, callers=CALLERS):
            listener = stack.enter_context(listen("127.0.0.1:0"))
            asked = []

            def serve():
                asked.append("start")
                return SERVICE

            serve_roll(Roll(listener, processes, serve, tls and tls.of_listener, callers))
            return address_of(listener), asked

        yield start


@pytest.fixture
def tls(tmp_path):
    return tls_of(config.resolve(Authority(tmp_path, "authority").issue()))


def come(address, rank, processes, patience=5.0, delay=0.0, pid=None, settings=None, machine="machine", tls=None):
    time.sleep(delay)
    place = Place("host", 100 + rank if pid is None else pid, machine)
    return answer_roll(address, Answer(rank, processes, place, settings or {"slots": 4}, patience), tls)


def answer(*arguments, **options):
    def run():
        service, room = come(*arguments, **options)
        room.end()
        return service

    return run


def test_all_are_told_the_service_when_all_are_there(coordinator):
    address, asked = coordinator(5)
    assert in_threads(*[answer(address, rank, 5) for rank in range(5)]) == [SERVICE] * 5
    assert asked == ["start"]


def test_the_order_of_arrival_is_free(coordinator):
    for order in ([0.3, 0, 0.1], [0, 0.2, 0]):
        address, _ = coordinator(3)
        assert in_threads(*[answer(address, r, 3, delay=d) for r, d in enumerate(order)]) == [SERVICE] * 3


@pytest.mark.parametrize("present", [(0, 2), (1, 3)], ids=["with process 0", "without"])
def test_the_missing_are_named_in_all(coordinator, present):
    address, asked = coordinator(4)
    errors = in_threads(*[answer(address, rank, 4, patience=0.6) for rank in present])
    missing = ", ".join(str(rank) for rank in range(4) if rank not in present)
    for error in errors:
        assert isinstance(error, NeverJoinedError)
        assert f"processes {missing} of 4 did not call jaxina.init() within 0.6 s" in error.message
    assert asked == []


def test_the_first_whose_patience_ends_ends_it_for_all(coordinator):
    address, _ = coordinator(3)
    began = time.monotonic()
    errors = in_threads(answer(address, 0, 3, patience=30), answer(address, 2, 3, patience=0.5))
    assert all(isinstance(error, NeverJoinedError) and "process 1 of 3" in error.message for error in errors)
    assert time.monotonic() - began < 5


def test_a_missing_coordinator_is_named():
    with listen("127.0.0.1:0") as free:
        address = address_of(free)
    began = time.monotonic()
    (error,) = in_threads(answer(address, 1, 2, patience=0.5))
    assert isinstance(error, NeverJoinedError) and address in error.message and "jaxina run" in error.message
    assert time.monotonic() - began < 3


@pytest.mark.parametrize("says", [b"SSH-2.0-OpenSSH_9.2\r\n", b"\xff\n", b"[]\n", b"{}\n"])
def test_who_answers_and_is_no_coordinator_is_named(says):
    with listen("127.0.0.1:0") as listener:

        def serve():
            with contextlib.suppress(OSError):  # the listener is closed
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        connection.sendall(says)
                        connection.recv(1000)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(
            NeverJoinedError, match=r"no coordinator answered at .* is no coordinator of jaxina"
        ) as found:
            come(address_of(listener), 0, 2, patience=0.2)
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
    assert repr(says) in found.value.message


def test_a_taken_rank_is_refused_and_the_others_go_on(coordinator):
    address, _ = coordinator(3)
    results = in_threads(
        answer(address, 0, 3),
        answer(address, 1, 3, pid=111, delay=0.2),
        answer(address, 1, 3, pid=222, delay=0.4),
        answer(address, 2, 3, delay=0.6),
    )
    assert [results[i] for i in (0, 1, 3)] == [SERVICE] * 3
    assert isinstance(results[2], RankTakenError)
    assert "rank 1 is taken by host host, pid 111; host host, pid 222" in results[2].message


def test_who_comes_when_all_are_there_is_refused(coordinator):
    address, _ = coordinator(2)
    (_, one), (_, other) = in_threads(*[lambda rank=rank: come(address, rank, 2) for rank in range(2)])
    (late,) = in_threads(answer(address, 0, 2, pid=333))
    assert isinstance(late, RankTakenError) and "pid 333" in late.message
    one.end()
    other.end()


def say(address, rank, processes):
    """Answers the roll and waits for nothing, as a process does that ends before the others come."""
    host, port = address.split(":")
    connection = socket.create_connection((host, int(port)), timeout=5)
    connection.sendall(Answer(rank, processes, Place("host", 999, "machine"), {"slots": 4}, 5.0).to_line())
    assert eventually(lambda: rank in look_at_job(address, 5).here)
    return connection


def test_the_rank_of_one_that_ends_before_all_have_come_is_free_again(coordinator):
    address, asked = coordinator(3)
    say(address, 1, 3).close()
    assert in_threads(*[answer(address, rank, 3) for rank in range(3)]) == [SERVICE] * 3
    assert asked == ["start"]


def test_one_that_ends_before_all_have_come_is_missing(coordinator):
    address, asked = coordinator(3)
    say(address, 1, 3).close()
    errors = in_threads(*[answer(address, rank, 3, patience=0.6) for rank in (0, 2)])
    for error in errors:
        assert isinstance(error, NeverJoinedError)
        assert "process 1 of 3 did not call jaxina.init() within 0.6 s" in error.message
    assert asked == []


def test_who_ends_is_told_to_the_others(coordinator):
    address, _ = coordinator(3)
    rooms = [found[1] for found in in_threads(*[lambda rank=rank: come(address, rank, 3) for rank in range(3)])]
    assert [room.ended() for room in rooms] == [set()] * 3
    rooms[1].end()
    assert eventually(lambda: rooms[0].ended() == rooms[2].ended() == {1})
    rooms[2].end()
    assert eventually(lambda: rooms[0].ended() == {1, 2})
    rooms[0].end()


def test_a_process_that_starts_again_finds_the_next_coordinator():
    """One host of several may start its processes again while the coordinator of the previous start still runs."""
    called = threading.Event()

    class Previous(Roll):
        def note(self, connection, line):
            rank = super().note(connection, line)
            if self._ended_ranks:
                called.set()
            return rank

    with listen("127.0.0.1:0") as listener:
        address = address_of(listener)
        serve_roll(Previous(listener, 2, lambda: "the previous service"))
        (_, stays), (_, ends) = in_threads(*[lambda rank=rank: come(address, rank, 2) for rank in range(2)])
        ends.end()
        assert eventually(lambda: stays.ended() == {1})
        results = []
        again = threading.Thread(target=lambda: results.extend(in_threads(answer(address, 1, 2, pid=333))))
        again.start()
        assert called.wait(20)
    stays.end()
    with listen(address) as listener:
        serve_roll(Roll(listener, 2, lambda: SERVICE))
        assert in_threads(answer(address, 0, 2)) == [SERVICE]
        again.join(20)
    assert results == [SERVICE]


def test_a_process_that_alone_starts_again_is_told_so(coordinator):
    address, _ = coordinator(2)
    (_, stays), (_, ends) = in_threads(*[lambda rank=rank: come(address, rank, 2) for rank in range(2)])
    ends.end()
    assert eventually(lambda: stays.ended() == {1})
    (error,) = in_threads(answer(address, 1, 2, patience=0.3))
    assert isinstance(error, NeverJoinedError) and address in error.message
    assert "process 1 has ended" in error.message and "start all processes" in error.message
    stays.end()


def test_an_address_in_use_is_refused():
    with listen("127.0.0.1:0") as taken, pytest.raises(InvalidArgumentError, match=address_of(taken)):
        listen(address_of(taken))


def test_other_settings_are_a_mismatch_in_all(coordinator):
    address, _ = coordinator(3)
    errors = in_threads(
        answer(address, 0, 3),
        answer(address, 1, 3),
        answer(address, 2, 3, delay=0.3, settings={"slots": 5}),
    )
    for error in errors:
        assert isinstance(error, MismatchError) and "process 2 has 5" in error.message


def test_two_hosts_with_one_name_are_an_error_in_all(coordinator):
    address, asked = coordinator(3)
    errors = in_threads(answer(address, 0, 3), answer(address, 1, 3), answer(address, 2, 3, machine="another"))
    for error in errors:
        assert isinstance(error, InvalidArgumentError)
        assert "run on two hosts that have one name, host" in error.message and "pid 102" in error.message
        assert "hostnamectl hostname NAME" in error.message
    assert asked == []


def test_another_number_of_processes_is_a_mismatch(coordinator):
    address, _ = coordinator(2)
    results = in_threads(answer(address, 0, 2), answer(address, 1, 3), answer(address, 1, 2, delay=0.5))
    assert isinstance(results[1], MismatchError) and results[0] == results[2] == SERVICE


def test_strangers_do_not_disturb(coordinator):
    address, _ = coordinator(2)

    def stranger(data):
        def run():
            time.sleep(0.2)
            host, port = address.split(":")
            with socket.create_connection((host, int(port)), timeout=5) as connection:
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
                connection.recv(100)

        return run

    results = in_threads(
        answer(address, 0, 2),
        stranger(b"GET / HTTP/1.1\r\n\r\n"),
        stranger(b'{"rank": 1}\n'),
        stranger(b""),
        stranger(b"x" * 100000),
        answer(address, 1, 2, delay=0.6),
    )
    assert results[0] == results[5] == SERVICE


@pytest.mark.parametrize("encrypted", [False, True])
def test_what_a_process_tells_is_shown_to_who_asks(coordinator, tls, encrypted):
    tls = tls if encrypted else None
    look_at_job = functools.partial(roll_call.look_at_job, tls=tls)
    address, _ = coordinator(2, tls)
    before = look_at_job(address, 20)
    assert (before.processes, before.here, before.late) == (2, {}, "")
    rooms = in_threads(*[functools.partial(come, address, rank, 2, tls=tls) for rank in range(2)])
    (_, one), (_, other) = rooms
    one.tell("rank 1 is late: ünicode\nand a second line")
    assert eventually(lambda: look_at_job(address, 20).late.startswith("rank 1 is late: ünicode\n"))
    seen = look_at_job(address, 20)
    assert seen.here == {0: "host host, pid 100", 1: "host host, pid 101"}
    assert seen.ended == [] and 0 <= seen.late_s < 60
    one.tell("ü" * 100_000)  # six bytes each: several TLS records
    assert eventually(lambda: look_at_job(address, 20).late == "ü" * MAX_LATE)
    other.end()
    assert eventually(lambda: look_at_job(address, 20).ended == [1])
    assert look_at_job(address, 20).leaving == [1]
    other._connection.shutdown(socket.SHUT_RDWR)  # its process is gone
    assert eventually(lambda: look_at_job(address, 20).leaving == [])
    assert eventually(lambda: one.ended() == {1})
    one.end()


def test_who_asks_where_nobody_listens_is_told_so():
    with listen("127.0.0.1:0") as listener:
        address = address_of(listener)
    with pytest.raises(NeverJoinedError, match=f"no coordinator answers at {address}"):
        look_at_job(address, 5)


def test_processes_with_a_certificate_are_told_the_service(coordinator, tls):
    address, _ = coordinator(3, tls)
    assert in_threads(*[answer(address, rank, 3, tls=tls) for rank in range(3)]) == [SERVICE] * 3


def test_who_does_not_use_tls_learns_nothing_and_is_told_so_at_once(coordinator, tls):
    address, _ = coordinator(2, tls)
    said = f"{address} serves only callers that use TLS"
    with pytest.raises(AuthenticationError, match=said):
        come(address, 0, 2, patience=1000.0)
    with pytest.raises(AuthenticationError, match=said):
        look_at_job(address, 20)
    assert in_threads(*[answer(address, rank, 2, tls=tls) for rank in range(2)]) == [SERVICE] * 2  # others still are


def test_a_coordinator_without_tls_is_refused_by_who_uses_it(coordinator, tls):
    address, _ = coordinator(2)
    with pytest.raises(AuthenticationError, match=f"{address} does not use TLS"):
        come(address, 0, 2, patience=1000.0, tls=tls)


def test_a_certificate_of_another_authority_is_refused(coordinator, tls, tmp_path):
    address, _ = coordinator(2, tls)
    other = tls_of(config.resolve(Authority(tmp_path, "other").issue()))
    with pytest.raises(AuthenticationError, match=f"certificate of {address} is not accepted"):
        come(address, 0, 2, patience=1000.0, tls=other)
    # One who accepts any coordinator is refused by this one.
    trusting = dataclasses.replace(other, authority=tls.authority)
    with pytest.raises(AuthenticationError, match=f"{address} does not accept this process's certificate"):
        come(address, 0, 2, patience=1000.0, tls=trusting)


def test_who_begins_a_handshake_and_is_silent_keeps_nobody_waiting(coordinator, tls):
    address, _ = coordinator(1, tls)
    with socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2]))) as silent:
        silent.sendall(b"\x16\x03\x01\x02\x00\x01")  # the first bytes of a ClientHello
        assert in_threads(answer(address, 0, 1, tls=tls)) == [SERVICE]


def test_who_has_gone_before_the_handshake_does_not_end_the_coordinator(tls):
    with listen("127.0.0.1:0") as listener:
        where = listener.getsockname()
        with socket.create_connection(where) as gone:
            gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closed by a reset
        roll = Roll(listener, 1, lambda: SERVICE, tls.of_listener)
        calls = threading.Thread(target=roll.call, daemon=True)
        calls.start()
        assert in_threads(answer(address_of(listener), 0, 1, tls=tls)) == [SERVICE]
        calls.join(20)
        assert not calls.is_alive()
        roll._here[0].connection.close()


@contextlib.contextmanager
def silent_callers(address, count):
    host, port = address.split(":")
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(socket.create_connection((host, int(port)), timeout=20)) for _ in range(count)]


def test_of_too_many_silent_callers_the_oldest_are_cut_off(coordinator):
    address, _ = coordinator(1, callers=2)
    with silent_callers(address, 4) as callers:
        assert [caller.recv(1) for caller in callers[:2]] == [b"", b""]
        assert in_threads(answer(address, 0, 1)) == [SERVICE]


def test_a_silent_caller_is_cut_off_after_a_while(coordinator, monkeypatch):
    monkeypatch.setattr(roll, "_SILENCE", 0.1)
    address, _ = coordinator(1)
    with silent_callers(address, 1) as (caller,):
        caller.sendall(b'{"rank"')
        assert caller.recv(1) == b""


def test_if_no_file_is_free_the_oldest_silent_caller_is_cut_off():
    class Full(socket.socket):
        tries = 0

        def accept(self):
            self.tries += 1
            if self.tries == 3:
                raise OSError(errno.EMFILE, "Too many open files")
            return super().accept()

    with Full(fileno=listen("127.0.0.1:0").detach()) as listener:
        roll = Roll(listener, 1, lambda: SERVICE)
        calls = threading.Thread(target=roll.call, daemon=True)
        calls.start()
        address = address_of(listener)
        with silent_callers(address, 3) as callers:
            assert callers[0].recv(1) == b""
            assert in_threads(answer(address, 0, 1)) == [SERVICE]
        calls.join(20)
        assert not calls.is_alive()
        for connection in (*roll._callers, roll._here[0].connection):
            connection.close()


def test_callers_that_take_all_files_do_not_end_the_coordinator():
    command = f"ulimit -n 48; exec {sys.executable} -m jaxina.cli coordinator -n 1"
    with subprocess.Popen(["bash", "-c", command], stdout=subprocess.PIPE, text=True) as process:
        try:
            address = process.stdout.readline().removeprefix("JAXINA_COORDINATOR=").split()[0]
            with silent_callers(address, 60):
                service, room = come(address, 0, 1, patience=60.0)
                room.end()
            assert service.startswith("127.0.0.1:")
        finally:
            process.kill()
