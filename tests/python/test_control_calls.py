"""Calls to a server that goes away while they begin, or says nothing: each ends in time, with a typed error."""

import concurrent.futures
import contextlib
import random
import socket
import socketserver
import struct
import threading
import time

import grpc
import pytest

from jaxina.control.client import SwitchClient
from jaxina.elastic import elastic_pb2, elastic_pb2_grpc, peer
from jaxina.elastic.attendance import Attendance
from jaxina.errors import SwitchUnreachableError, WorkerLostError
from jaxina.fabric.service import fabric_pb2, fabric_pb2_grpc
from jaxina.fabric.service.session import FabricSession

SETTINGS, GOAWAY = 4, 7  # HTTP/2's types of frames
ACKNOWLEDGED = 1
CALLERS = 4
CALLS = 50  # by each caller
DEADLINE = 5.0  # seconds, of each call
BUSY = 1.0  # seconds that a busy host takes to answer
ENOUGH = 20.0  # seconds for all. They take 1; if gRPC repeated calls by itself, many would take 10, and some forever.


def frame(kind, flags=0, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + bytes(4) + payload


class LeavingServer:
    """Accepts each connection as an HTTP/2 server, and takes leave of it a moment later."""

    def __init__(self, seed):
        self._rng = random.Random(seed)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):  # the caller may be faster
                self._leave(connection)

    def _leave(self, connection):
        connection.sendall(frame(SETTINGS))
        last_stream = self._rng.choice([0, 1, 2**31 - 1])
        connection.sendall(frame(SETTINGS, ACKNOWLEDGED) + frame(GOAWAY, 0, struct.pack(">II", last_stream, 0)))
        if self._rng.random() < 0.5:
            time.sleep(self._rng.uniform(0, 0.002))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def ask_a_switch(address):
    with SwitchClient(address, DEADLINE) as client:
        client.status()


def ask_a_member(address):
    member = elastic_pb2.FormedMember(number=1, place="host:1", address=address)
    peer.fetch(elastic_pb2.Formed(generation=1, members=[member]), 0.0, DEADLINE, None, None)


@pytest.mark.parametrize("ask, error", [(ask_a_switch, SwitchUnreachableError), (ask_a_member, WorkerLostError)])
def test_no_call_outlasts_a_server_that_leaves(ask, error):
    ended = []

    def call():
        for _ in range(CALLS):
            try:
                ask(server.address)
            except error:
                ended.append("as it should")

    with LeavingServer(seed=5) as server:
        callers = [threading.Thread(target=call, daemon=True) for _ in range(CALLERS)]
        for caller in callers:
            caller.start()
        until = time.monotonic() + ENOUGH
        for caller in callers:
            caller.join(max(0.0, until - time.monotonic()))
        assert len(ended) == CALLERS * CALLS


class Silent(elastic_pb2_grpc.KeeperServicer, fabric_pb2_grpc.FabricServicer):
    """Takes members, and says nothing to them: for ever, or until it ends their stream."""

    def __init__(self, ends):
        self.over = threading.Event()
        if ends:
            self.over.set()

    def Attend(self, requests, context):
        self.over.wait(ENOUGH)
        return iter(())

    Session = Attend


@contextlib.contextmanager
def silent_service(ends):
    service = Silent(ends)
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
    elastic_pb2_grpc.add_KeeperServicer_to_server(service, server)
    fabric_pb2_grpc.add_FabricServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        service.over.set()
        server.stop(None).wait()


def pass_on(source, sink):
    with contextlib.suppress(OSError):  # either end may close first
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


class Busy(socketserver.BaseRequestHandler):
    """Serves a connection `BUSY` seconds after it was accepted: as the service `server.behind` does."""

    def handle(self):
        time.sleep(BUSY)
        with socket.create_connection(self.server.behind) as service:
            answers = threading.Thread(target=pass_on, args=(service, self.request))
            answers.start()
            pass_on(self.request, service)
            answers.join()


@contextlib.contextmanager
def busy_host(address):
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Busy) as server:
        host, port = address.split(":")
        server.behind = host, int(port)
        threading.Thread(target=server.serve_forever).start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


def attend(address, timeout):
    Attendance(address, elastic_pb2.Join(), timeout, None, None, lambda *why: None)


def join_a_fabric(address, timeout):
    FabricSession(address, fabric_pb2.Join(), timeout, None, None)


@pytest.mark.parametrize("take_part", [attend, join_a_fabric])
def test_a_service_that_says_nothing_is_not_waited_for(take_part):
    with silent_service(ends=False) as address:
        began = time.monotonic()
        with pytest.raises(SwitchUnreachableError, match=r"no answer within 0\.5 s"):
            take_part(address, 0.5)
        assert time.monotonic() - began < DEADLINE


@pytest.mark.parametrize("take_part", [attend, join_a_fabric])
def test_a_service_that_ends_the_stream_at_once_is_told_of(take_part):
    with (
        silent_service(ends=True) as address,
        pytest.raises(SwitchUnreachableError, match="it closed the connection"),
    ):
        take_part(address, ENOUGH)


@pytest.mark.parametrize("take_part", [attend, join_a_fabric])
def test_a_busy_host_is_waited_for(take_part):
    with (
        silent_service(ends=True) as service,
        busy_host(service) as address,
        pytest.raises(SwitchUnreachableError, match="it closed the connection"),
    ):
        take_part(address, ENOUGH)


def test_a_busy_worker_is_not_taken_for_a_dead_one():
    with (
        silent_service(ends=True) as service,
        busy_host(service) as address,
        SwitchClient(address, DEADLINE, at_worker=0) as client,
        pytest.raises(SwitchUnreachableError, match="unimplemented"),  # so the host has answered
    ):
        client.status()
