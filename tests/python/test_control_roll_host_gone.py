"""The roll call when a host is gone without a word, in network namespaces."""

import contextlib
import socket

import pytest
from control_fakes import eventually, in_threads, serve_roll
from real_processes.namespaces import Namespaces

from jaxina.control.coordinator import address_of, listen
from jaxina.control.roll import Roll
from jaxina.control.roll_call import Answer, answer_roll, look_at_job
from jaxina.control.topology import Place

pytestmark = pytest.mark.skipif(bool(Namespaces.unavailable()), reason=Namespaces.unavailable())

SERVICE = "10.1.2.3:4567"
PATIENCE = 60.0  # seconds; the rank is free again after 7


def test_the_rank_of_a_host_that_is_gone_is_free_again():
    with Namespaces() as network, contextlib.ExitStack() as stack:

        def inside(name, call):
            """Calls in a thread whose network is the namespace."""

            def run():
                network.enter(name)
                return call()

            return run

        def say(rank):
            connection = socket.create_connection((network.hub, port), timeout=5)
            connection.sendall(answer(rank).to_line())
            return stack.enter_context(connection)

        def answer(rank):
            return Answer(rank, 2, Place(f"host{rank}", 100, f"machine{rank}"), {}, PATIENCE)

        def come(rank):
            service, room = answer_roll(address, answer(rank))
            room.end()
            return service

        def here():
            return in_threads(inside("w1", lambda: look_at_job(address, 5).here))[0]

        (listener,) = in_threads(inside("hub", lambda: listen(f"{network.hub}:0")))
        stack.enter_context(listener)
        address, port = address_of(listener), listener.getsockname()[1]
        serve_roll(Roll(listener, 2, lambda: SERVICE))
        in_threads(inside("w0", lambda: say(1)))
        assert eventually(lambda: 1 in here())
        network.unplug("w0")
        assert eventually(lambda: 1 not in here())
        assert in_threads(*[inside("w1", lambda rank=rank: come(rank)) for rank in range(2)]) == [SERVICE] * 2
