"""Calls to a server that goes away while they begin: each ends at once, with a typed error."""

import random
import socket
import struct
import threading
import time

import pytest

from jaxina.control.client import SwitchClient
from jaxina.elastic import elastic_pb2, peer
from jaxina.errors import SwitchUnreachableError, WorkerLostError

SETTINGS, GOAWAY = 4, 7  # HTTP/2's types of frames
ACKNOWLEDGED = 1
CALLERS = 4
CALLS = 50  # by each caller
DEADLINE = 5.0  # seconds, of each call
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
            with connection:
                try:
                    self._leave(connection)
                except OSError:
                    pass  # the caller was faster

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


@pytest.mark.parametrize(("ask", "error"), [(ask_a_switch, SwitchUnreachableError), (ask_a_member, WorkerLostError)])
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
