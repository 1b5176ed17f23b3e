"""Transfers over loopback: paced, checked before the payload is read, and typed errors for what is refused."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import threading
import time

import pytest
from control_fakes import eventually

from jaxina.config import split_address
from jaxina.control.open_files import make_room
from jaxina.errors import InvalidArgumentError, JobRejectedError, MismatchError, SystemCallError
from jaxina.fabric.transfer import receiver as receiver_module
from jaxina.fabric.transfer.frame import MAX_NAMES, Kind, header_of
from jaxina.fabric.transfer.pacing import NANOSECONDS, Step, steps
from jaxina.fabric.transfer.receiver import Receiver
from jaxina.fabric.transfer.sender import CancelledError, send

SECRET = 99
IDLE = 20.0
LONG_HEADER = header_of(Kind.SUM, SECRET, tuple(range(MAX_NAMES)), 3, b"").pack()


class Sink:
    """A receiver that keeps what it takes."""

    def __init__(self, refuse=None, idle: float = IDLE):
        self.refuse = refuse
        self.admitted = []
        self.taken = []
        self.receiver = Receiver("127.0.0.1:0")
        self.receiver.serve(SECRET, self.admit, lambda header, payload: self.taken.append((header, payload)), idle)
        self.address = self.receiver.address

    def admit(self, header):
        self.admitted.append(header)
        if self.refuse is not None:
            raise self.refuse

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.receiver.close()


def frame(payload: bytes, secret: int = SECRET, name: int = 5):
    return header_of(Kind.UPDATE, secret, (name,), 3, payload)


def deliver(address, payload, pieces=(), secret=SECRET, cancelled=None):
    header = frame(payload, secret)
    plan = steps(pieces, header.length + header.size)
    return send(address, header, payload, plan, cancelled or threading.Event(), IDLE)


def test_a_frame_is_taken_as_it_was_sent():
    payload = bytes(range(256)) * 4000
    with Sink() as sink:
        deliver(sink.address, payload)
        assert sink.taken == [(frame(payload), payload)]


def test_a_frame_is_sent_however_many_files_are_open():
    """`select` takes no descriptor from 1,024 on."""
    make_room("this test", 1200)
    with Sink() as sink, contextlib.ExitStack() as files:
        for _ in range(1100):
            files.enter_context(open(os.devnull, "rb"))
        deliver(sink.address, b"abcd")
        assert [payload for _, payload in sink.taken] == [b"abcd"]


def test_frames_that_come_at_once_do_not_mix():
    payloads = [bytes([i]) * 300_000 for i in range(8)]
    with Sink() as sink:
        threads = [threading.Thread(target=deliver, args=(sink.address, payload)) for payload in payloads]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(payload for _, payload in sink.taken) == payloads


def test_a_transfer_is_not_faster_than_planned():
    """A busy machine can only make it slower."""
    rate, size = 2_000_000, 2_000_000
    now = time.monotonic_ns()
    with Sink() as sink:
        delivery = deliver(sink.address, bytes(size), [(now, now + NANOSECONDS, rate)])
    assert delivery.seconds > 0.95  # the last slice of 10 ms goes at once


def test_a_transfer_begins_when_it_is_planned():
    begin = time.monotonic_ns() + NANOSECONDS // 3
    with Sink() as sink:
        deliver(sink.address, b"abcd", [(begin, begin + NANOSECONDS, 1000)])
        assert time.monotonic_ns() >= begin


def test_what_is_not_wanted_is_refused_before_its_payload_is_read():
    payload = bytes(50_000_000)
    with Sink(refuse=MismatchError("another version")) as sink:
        begin = time.monotonic_ns()
        # By plan it takes a day. The answer comes at once, and ends it.
        with pytest.raises(MismatchError, match="another version"):
            deliver(sink.address, payload, [(begin, begin + 86_400 * NANOSECONDS, 600)])
        assert len(sink.admitted) == 1 and not sink.taken


def test_another_jobs_frame_is_refused_unseen():
    with Sink() as sink:
        with pytest.raises(JobRejectedError, match="secret"):
            deliver(sink.address, b"abcd", secret=SECRET + 1)
        assert not sink.admitted and not sink.taken


def test_a_payload_that_was_changed_is_refused():
    header = frame(b"abcd")
    with Sink() as sink:
        plan = steps((), header.length + 4)
        with pytest.raises(InvalidArgumentError, match="changed on its way"):
            send(sink.address, header, b"abcX", plan, threading.Event(), IDLE)
        assert not sink.taken


def test_a_transfer_that_breaks_off_leaves_nothing():
    payload = bytes(1000)
    header = frame(payload)
    with Sink() as sink:
        for cut in (10, header.length, header.length + 999):
            with socket.create_connection(split_address(sink.address), timeout=IDLE) as connection:
                connection.sendall((header.pack() + payload)[:cut])
                connection.shutdown(socket.SHUT_WR)
                assert connection.recv(1) == b"", "an answer to a part of a frame"
        deliver(sink.address, b"whole")
        assert [payload for _, payload in sink.taken] == [b"whole"]


def test_strangers_get_an_answer_and_change_nothing():
    with Sink() as sink, socket.create_connection(split_address(sink.address), timeout=IDLE) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: somewhere.example\r\n\r\n")
        assert b"no frames of jaxina.fabric" in b"".join(iter(lambda: connection.recv(4096), b""))
        assert not sink.taken


def test_a_sender_that_falls_silent_is_given_up():
    header = frame(bytes(1000))
    with Sink(idle=0.3) as sink, socket.create_connection(split_address(sink.address), timeout=IDLE) as connection:
        connection.sendall(header.pack() + b"only this")
        assert connection.recv(1) == b""
        assert not sink.taken


@contextlib.contextmanager
def idlers(address, count: int, begin: bytes = b""):
    """Strangers that say `begin`, and then a byte ever so often. Gives a list that gets the seconds after which each
    connection ended."""
    ended: list[float] = []
    going = threading.Event()

    def idle() -> None:
        opened = time.monotonic()
        with socket.create_connection(split_address(address), timeout=IDLE) as connection:
            connected.release()
            try:
                connection.sendall(begin)
                while not going.wait(0.02):
                    connection.sendall(b"?")
            except OSError:
                ended.append(time.monotonic() - opened)

    connected = threading.Semaphore(0)
    threads = [threading.Thread(target=idle) for _ in range(count)]
    for thread in threads:
        thread.start()
        assert connected.acquire(timeout=IDLE)
    try:
        yield ended
    finally:
        going.set()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize("begin", [b"", b"no header of a frame" * 3], ids=["in the header", "refused"])
def test_strangers_who_stay_keep_no_frame_out(begin, monkeypatch):
    monkeypatch.setattr(receiver_module, "MAX_CONNECTIONS", 8)
    monkeypatch.setattr(receiver_module, "_HEADER_WITHIN", IDLE)
    monkeypatch.setattr(receiver_module, "_REPLY_WITHIN", IDLE)
    with Sink() as sink, idlers(sink.address, 8, begin) as ended:
        deliver(sink.address, b"abcd")
        assert [payload for _, payload in sink.taken] == [b"abcd"]
        assert len(sink.receiver._open) <= 8
        assert eventually(lambda: ended, IDLE) and len(ended) == 1, "only the oldest has to go"


@pytest.mark.parametrize("begin", [LONG_HEADER[:100], b"no header of a frame" * 3], ids=["in the header", "refused"])
def test_slow_strangers_have_to_go(begin, monkeypatch):
    """What limits them is the time of the whole header, or of the rest after a refusal, not that of a byte."""
    monkeypatch.setattr(receiver_module, "_HEADER_WITHIN", 0.3)
    monkeypatch.setattr(receiver_module, "_REPLY_WITHIN", 0.3)
    with Sink() as sink, idlers(sink.address, 1, begin) as ended:
        assert eventually(lambda: ended, IDLE)
    assert not sink.admitted


def test_frames_are_taken_again_once_files_are_free():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with Sink() as sink, socket.socket() as waiting:
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        try:
            waiting.connect(split_address(sink.address))
            eventually(lambda: not sink.receiver._thread.is_alive(), 0.3)  # it tries meanwhile
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        deliver(sink.address, b"abcd")
        assert [payload for _, payload in sink.taken] == [b"abcd"]


def test_frames_are_taken_again_once_threads_are_free(monkeypatch):
    usual, failed = threading.Thread.start, []

    def start(thread):
        if thread.name == "jaxina-frame" and not failed:
            failed.append(thread)
            raise RuntimeError("can't start new thread")
        usual(thread)

    with Sink() as sink:
        monkeypatch.setattr(threading.Thread, "start", start)
        with pytest.raises(SystemCallError):  # the sender's host tries again
            deliver(sink.address, b"abcd")
        deliver(sink.address, b"abcd")
        assert [payload for _, payload in sink.taken] == [b"abcd"] and not sink.receiver._strangers


def test_a_transfer_under_way_keeps_its_place(monkeypatch):
    monkeypatch.setattr(receiver_module, "MAX_CONNECTIONS", 2)
    payload = bytes(1000)
    with Sink() as sink, socket.create_connection(split_address(sink.address), timeout=IDLE) as connection:
        connection.sendall(frame(payload).pack())
        assert eventually(lambda: sink.admitted, IDLE)
        with idlers(sink.address, 3):
            connection.sendall(payload)
            assert connection.recv(1) == b"\0"
        assert [taken for _, taken in sink.taken] == [payload]


def test_nobody_there():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(SystemCallError, match=f"transfer to 127.0.0.1:{port} failed"):
        deliver(f"127.0.0.1:{port}", b"abcd")


def test_a_receiver_that_ends_in_the_middle():
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def take_a_little():
            connection, _ = listener.accept()
            connection.recv(100)
            connection.close()

        threading.Thread(target=take_a_little).start()
        with pytest.raises(SystemCallError):
            deliver(f"127.0.0.1:{listener.getsockname()[1]}", bytes(20_000_000))


def test_a_cancelled_transfer_ends_before_and_in_its_middle():
    with Sink() as sink:
        far = time.monotonic_ns() + 1000 * NANOSECONDS
        cancelled = threading.Event()
        threading.Timer(0.1, cancelled.set).start()
        with pytest.raises(CancelledError):
            deliver(sink.address, b"abcd", [(far, far + NANOSECONDS, 1000)], cancelled=cancelled)
        now = time.monotonic_ns()
        cancelled = threading.Event()
        threading.Timer(0.3, cancelled.set).start()
        with pytest.raises(CancelledError):
            deliver(sink.address, bytes(10_000_000), [(now, now + NANOSECONDS, 100_000)], cancelled=cancelled)
        assert not sink.taken


def test_a_receiver_that_listens_twice_is_refused():
    with Sink() as sink, pytest.raises(InvalidArgumentError, match="cannot listen"):
        Receiver(sink.address)


def test_the_steps_of_a_transfer_follow_its_pieces():
    pieces = [(100, 100 + NANOSECONDS, 10), (5 * NANOSECONDS, 6 * NANOSECONDS, 30)]
    assert steps(pieces, 40) == [Step(100, 10, 10), Step(5 * NANOSECONDS, 30, 30)]
    assert steps(pieces, 45)[-1] == Step(5 * NANOSECONDS, 30, 35), "the header goes with the last piece"
    assert steps(pieces, 8) == [Step(100, 10, 8)]
    assert steps([], 8) == [Step(0, 0, 8)], "within a host"
    assert steps([(7, 8, 10)], 8) == [Step(7, 10, 8)], "a piece too short for a byte"
