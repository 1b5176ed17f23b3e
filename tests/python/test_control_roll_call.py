"""The launched processes' roll call, over loopback TCP; threads play processes."""

import socket
import time

import pytest
from control_fakes import in_threads

from jaxina.control.roll_call import Answer, call_roll
from jaxina.control.topology import Place
from jaxina.errors import InvalidArgumentError, MismatchError, NeverJoinedError, RankTakenError


@pytest.fixture
def address():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"127.0.0.1:{free.getsockname()[1]}"


def call(address, rank, processes, timeout=5.0, delay=0.0, pid=None, settings=None):
    def run():
        time.sleep(delay)
        place = Place("host", 100 + rank if pid is None else pid, "machine")
        return call_roll(address, Answer(rank, processes, place, settings or {"slots": 4}), timeout)

    return run


def test_all_return_when_all_are_there(address):
    assert in_threads(*[call(address, rank, 5) for rank in range(5)]) == [None] * 5


def test_the_order_of_arrival_is_free_and_the_address_can_be_used_again(address):
    for order in ([0.3, 0, 0.1], [0, 0.2, 0]):
        assert (
            in_threads(*[call(address, r, 3, delay=d) for r, d in enumerate(order)]) == [None] * 3
        )


def test_the_missing_are_named_in_all(address):
    errors = in_threads(*[call(address, rank, 4, timeout=0.6) for rank in (0, 2)])
    for error in errors:
        assert isinstance(error, NeverJoinedError)
        assert "processes 1, 3 of 4 did not call jaxina.init() within 0.6 s" in error.message


def test_a_missing_process_0_is_named(address):
    began = time.monotonic()
    (error,) = in_threads(call(address, 1, 2, timeout=0.5))
    assert (
        isinstance(error, NeverJoinedError)
        and "process 0" in error.message
        and address in error.message
    )
    assert time.monotonic() - began < 3


def test_a_taken_rank_is_refused_and_the_others_go_on(address):
    results = in_threads(
        call(address, 0, 3),
        call(address, 1, 3, pid=111, delay=0.2),
        call(address, 1, 3, pid=222, delay=0.4),
        call(address, 2, 3, delay=0.6),
    )
    assert [results[i] for i in (0, 1, 3)] == [None] * 3
    assert isinstance(results[2], RankTakenError)
    assert "rank 1 is taken by host host, pid 111; host host, pid 222" in results[2].message


def test_a_second_process_0_cannot_listen(address):
    first, second, other = in_threads(
        call(address, 0, 2), call(address, 0, 2, delay=0.3), call(address, 1, 2, delay=1)
    )
    assert first is None and other is None
    assert isinstance(second, InvalidArgumentError) and "rank 0" in second.message


def test_other_settings_are_a_mismatch_in_all(address):
    errors = in_threads(
        call(address, 0, 3),
        call(address, 1, 3),
        call(address, 2, 3, delay=0.3, settings={"slots": 5}),
    )
    for error in errors:
        assert isinstance(error, MismatchError) and "process 2 has 5" in error.message


def test_another_number_of_processes_is_a_mismatch(address):
    results = in_threads(call(address, 0, 2), call(address, 1, 3), call(address, 1, 2, delay=0.5))
    assert isinstance(results[1], MismatchError) and results[0] is results[2] is None


def test_strangers_do_not_disturb(address):
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
        call(address, 0, 2),
        stranger(b"GET / HTTP/1.1\r\n\r\n"),
        stranger(b'{"rank": 1}\n'),
        stranger(b""),
        stranger(b"x" * 100000),
        call(address, 1, 2, delay=0.6),
    )
    assert results[0] is None and results[5] is None
