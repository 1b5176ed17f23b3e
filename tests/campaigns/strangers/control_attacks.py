"""Attacks on the control port: calls of all kinds, and connections that make no call."""

from __future__ import annotations

import contextlib
import queue
import socket
import time
from collections.abc import Iterator
from typing import Any

import grpc

from jaxina.control import control_pb2 as pb
from strangers.network import STRANGER
from strangers.rdma_attacks import connect_request
from strangers.stranger import Stranger, attack, job_request, join, missing_request

_DAY = 86_400.0
_MOST_CONNECTIONS = 400  # half-open ones at the same time
_MOST_STREAMS = 400  # open at the same time


def _most_expensive_job(stranger: Stranger, stub: Any) -> pb.CreateJobReply | None:
    return stranger.own_job(stub, workers=1024, slots=65_535, block_size=8)


# ---- CreateJob


@attack("control")
def hoard_jobs(stranger: Stranger) -> None:
    """Creates small jobs in a loop, for a day each. Nobody joins them."""
    stranger.from_many_connections(lambda stub: stranger.create_job(stub, workers=1, slots=1, join_timeout=_DAY))


@attack("control", per_second=50)
def largest_pools(stranger: Stranger) -> None:
    """Creates jobs in a loop whose pools take all the memory that pools may take. The jobs expire at once."""
    stub = stranger.stub()
    while stranger.budget.take():
        stranger.create_job(stub, slots=8_000, block_size=16_000, join_timeout=0.01)


@attack("control", per_second=50)
def most_slots(stranger: Stranger) -> None:
    """Creates jobs in a loop, for a day each, with 65,535 slots of the smallest blocks for 1,024 workers."""
    stub = stranger.stub()
    while stranger.budget.take():
        stranger.create_job(stub, workers=1024, slots=65_535, block_size=8, join_timeout=_DAY)


@attack("control")
def impossible_jobs(stranger: Stranger) -> None:
    """Asks for jobs with sizes such as zero and 2^32 - 1, and with times that are negative or not finite."""
    sizes = (0, 1, 65_536, 2**32 - 1)
    draw = stranger.random

    def ask(stub: Any) -> None:
        shape = {name: draw.choice(sizes) for name in ("devices", "workers", "slots", "block_size", "blocks_per_chunk")}
        stranger.create_job(stub, **shape, join_timeout=draw.choice((0.5, -1.0, float("nan"), float("inf"))))

    stranger.from_many_connections(ask)


# ---- questions


@attack("control")
def who_is_missing(stranger: Stranger) -> None:
    """Calls WhoIsMissing from many connections, for a job of its own with the most workers and slots."""
    grant = _most_expensive_job(stranger, stranger.stub())
    if grant is not None:
        stranger.from_many_connections(lambda stub: stranger.call(stub.WhoIsMissing, missing_request(grant)))


@attack("control")
def who_is_missing_of_others(stranger: Stranger) -> None:
    """Calls WhoIsMissing for a job of others."""
    job = stranger.jobs_of_others(stranger.stub())[0]
    request = missing_request(pb.CreateJobReply(job=job))
    stranger.from_many_connections(lambda stub: stranger.call(stub.WhoIsMissing, request))


@attack("control")
def status(stranger: Stranger) -> None:
    """Calls Status from many connections, while there is a job with the most workers and slots."""
    _most_expensive_job(stranger, stranger.stub())
    stranger.from_many_connections(lambda stub: stranger.call(stub.Status, pb.StatusRequest()))


# ---- sessions


@attack("control")
def sessions_that_never_join(stranger: Stranger) -> None:
    """Opens Session streams and sends nothing."""
    stub = stranger.stub()
    silent: queue.Queue[None] = queue.Queue()
    open_ones = []
    while stranger.budget.take(4):
        if len(open_ones) == _MOST_STREAMS:
            open_ones.pop(0).cancel()
        open_ones.append(stub.Session(iter(silent.get, None)))


@attack("control")
def sessions_broken_off(stranger: Stranger) -> None:
    """Opens Session streams and cancels them at once."""
    stranger.from_many_connections(lambda stub: stub.Session(iter(())).cancel())


@attack("control")
def joins_and_deaths(stranger: Stranger) -> None:
    """Creates jobs in a loop, and joins each with a session that dies."""

    def die(stub: Any) -> None:
        if (grant := stranger.create_job(stub, workers=2)) is not None:
            silent: queue.Queue[pb.WorkerMessage | None] = queue.Queue()
            silent.put(join(grant, [0]))
            session = stub.Session(iter(silent.get, None), timeout=2.0)
            with contextlib.suppress(grpc.RpcError, StopIteration):
                next(session)
            session.cancel()
            silent.put(None)

    stranger.from_many_connections(die)


@attack("control")
def leaves_and_aborts(stranger: Stranger) -> None:
    """Creates and joins jobs in a loop, and leaves them in order or with an error, with a long message."""

    def leave(stub: Any) -> None:
        if (grant := stranger.create_job(stub, workers=2)) is not None:
            code = stranger.random.choice(("", "WORKER_LOST", "NO_SUCH_CODE"))
            ending = pb.WorkerMessage(leave=pb.Leave(code=code, message="x" * 100_000))
            with contextlib.suppress(grpc.RpcError):
                list(stub.Session(iter((join(grant, [0]), ending)), timeout=2.0))

    stranger.from_many_connections(leave)


@attack("control", per_second=2_000)
def heartbeats(stranger: Stranger) -> None:
    """Sends heartbeats with a thousand statistics each, as fast as the stream takes them."""
    stub = stranger.stub()
    beat = pb.WorkerMessage(heartbeat=pb.Heartbeat(statistics={f"name {number}": number for number in range(1000)}))
    while (grant := stranger.create_job(stub, workers=2)) is not None or stranger.budget.take():
        if grant is None:
            continue

        joining = join(grant, [0])

        def beats(joining: pb.WorkerMessage = joining) -> Iterator[pb.WorkerMessage]:
            yield joining
            while stranger.budget.take():
                yield beat

        with contextlib.suppress(grpc.RpcError):
            list(stub.Session(beats(), timeout=max(0.01, stranger.budget.left)))
        if stranger.budget.left == 0:
            return


@attack("control")
def wrong_secrets(stranger: Stranger) -> None:
    """Calls Join and ConnectQueuePairs for a job of others, with guessed secrets."""
    job = stranger.jobs_of_others(stranger.stub())[0]

    def guess(stub: Any) -> None:
        guessed = pb.CreateJobReply(job=job, secret=stranger.random.getrandbits(64))
        stranger.call(stub.ConnectQueuePairs, connect_request(guessed))
        with contextlib.suppress(grpc.RpcError):
            list(stub.Session(iter((join(guessed, [0]),)), timeout=2.0))

    stranger.from_many_connections(guess)


# ---- queue pairs


@attack("control")
def slow_host_names(stranger: Stranger) -> None:
    """Calls ConnectQueuePairs with a host name whose name server never answers."""
    host = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    host.bind((STRANGER, 53))  # takes the questions and does not answer them
    grant = stranger.own_job(stranger.stub(), slots=1)
    number = 0

    def ask(stub: Any) -> None:
        nonlocal number
        number += 1
        stranger.call(stub.ConnectQueuePairs, connect_request(grant, f"host{number}.stranger.test", slots=1))

    if grant is not None:
        stranger.from_many_connections(ask)


@attack("control")
def reconnects(stranger: Stranger) -> None:
    """Calls ConnectQueuePairs again and again for a job of its own with many queue pairs."""
    grant = stranger.own_job(stranger.stub(), slots=1024)
    if grant is not None:
        request = connect_request(grant, slots=1024)
        stranger.from_many_connections(lambda stub: stranger.call(stub.ConnectQueuePairs, request))


@attack("control", per_second=100)
def queue_pair_memory(stranger: Stranger) -> None:
    """Calls ConnectQueuePairs for 32 workers of a 32 MiB job of its own, then for those of another such job."""
    stub = stranger.stub()
    while stranger.budget.left > 0:
        grant = stranger.own_job(stub, workers=32, slots=256, block_size=1000, blocks_per_chunk=16)
        if grant is None:
            return
        for rank in range(32):
            if not stranger.budget.take():
                return
            stranger.call(stub.ConnectQueuePairs, connect_request(grant, rank=rank, slots=256))


# ---- connections without calls, and messages that are too large


@attack("control")
def half_open_connections(stranger: Stranger) -> None:
    """Opens TCP connections, sends nothing or nonsense, and keeps them open."""
    port = stranger.target.control.rpartition(":")[2]
    open_ones: list[socket.socket] = []
    while stranger.budget.take():
        if len(open_ones) == _MOST_CONNECTIONS:
            open_ones.pop(0).close()
        with contextlib.suppress(OSError):
            open_ones.append(socket.create_connection((stranger.target.host, int(port)), timeout=1.0))
            beginning = stranger.random.choice((b"", b"PRI * HTTP/2.0\r\n", b"\0" * 9, b"GET / HTTP/1.1\r\n\r\n"))
            open_ones[-1].sendall(beginning)


@attack("control")
def connection_churn(stranger: Stranger) -> None:
    """Opens connections that ask for a job's state once and close."""
    job = missing_request(pb.CreateJobReply(job=1))
    while stranger.budget.take(5):
        stub = stranger.stub()
        stranger.call(stub.WhoIsMissing, job)
        del stub
        time.sleep(0)


@attack("control", per_second=20)
def oversized_messages(stranger: Stranger) -> None:
    """Sends Joins with a million ranks or a very long host name, and requests that are larger than gRPC takes."""
    stub = stranger.stub()
    long_ones = (
        pb.WorkerMessage(join=pb.Join(job=1, ranks=range(1_000_000))),
        pb.WorkerMessage(join=pb.Join(job=1, host="h" * 4_000_000)),
        pb.WorkerMessage(join=pb.Join(job=1, host="h" * 16_000_000)),
    )
    field_15 = b"\x7a\x80\x80\x80\x04" + bytes(8 << 20)
    unknown = pb.CreateJobRequest.FromString(job_request().SerializeToString() + field_15)
    while stranger.budget.take(2):
        with contextlib.suppress(grpc.RpcError):
            list(stub.Session(iter((stranger.random.choice(long_ones),)), timeout=2.0))
        stranger.call(stub.CreateJob, unknown)
