"""The attacker: a process of low priority that stops by itself.

It has a budget of packets or calls per second, and of processor time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import grpc

from jaxina.control import control_pb2 as pb
from jaxina.control import control_pb2_grpc
from strangers import packets
from strangers.network import HUB, STRANGER

DATAGRAMS, CALLS = 10_000, 500  # per second, at most
SHARE = 0.25  # of one core, at most
NICE = 10
_CONNECTIONS = 8
_CALL_WITHIN = 5.0  # seconds that an attack waits for an answer


@dataclasses.dataclass(frozen=True)
class Target:
    """What everybody knows of a switch, and what was overheard of the jobs of others."""

    control: str
    data_ports: tuple[int, ...]
    rdma_port: int
    overheard: tuple[tuple[int, bytes], ...] = ()  # (port, payload)

    @property
    def host(self) -> str:
        return self.control.rpartition(":")[0]


class Budget:
    """Allows at most `per_second` packets or calls and `share` of one core, until `seconds` have passed."""

    def __init__(self, seconds: float, per_second: float, share: float):
        self._started, self._processor = time.monotonic(), time.process_time()
        self._end, self._per_second, self._share = self._started + seconds, per_second, share
        self.taken = 0
        self._lock = threading.Lock()

    @property
    def left(self) -> float:
        return max(0.0, self._end - time.monotonic())

    def take(self, count: int = 1) -> bool:
        """Waits until `count` more are allowed. Returns whether there is time left."""
        with self._lock:
            self.taken += count
            due = self._started + self.taken / self._per_second
        due = max(due, self._started + (time.process_time() - self._processor) / self._share)
        pause = min(due, self._end) - time.monotonic()
        if pause > 0:
            time.sleep(pause)
        return self.left > 0


class Stranger:
    """What an attack can use: sockets for datagrams and RDMA packets, calls, and jobs of its own."""

    def __init__(self, target: Target, budget: Budget, seed: int):
        self.target = target
        self.budget = budget
        self.random = random.Random(seed)
        self._raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
        self._identification = 0

    # ---- datagrams

    def send(
        self, payload: bytes, *, port: int | None = None, source: str = STRANGER, source_port: int = 40_000
    ) -> None:
        """Sends one datagram, from any source. By default it goes to a random data port."""
        port = self.random.choice(self.target.data_ports) if port is None else port
        self._send_raw(source, source_port, port, payload)

    def send_rdma(
        self, covered: bytes, *, source: str = STRANGER, source_port: int = 40_000, right: bool = True
    ) -> None:
        """Sends one RDMA packet with a right ICRC, or with a wrong one."""
        port = self.target.rdma_port
        code = packets.icrc(source, source_port, HUB, port, self._next_identification(), covered)
        self._send_raw(source, source_port, port, covered + (code if right else bytes(byte ^ 0x55 for byte in code)))

    def _send_raw(self, source: str, source_port: int, port: int, payload: bytes) -> None:
        self._identification = self._next_identification()
        packet = packets.ip_datagram(source, source_port, HUB, port, payload, self._identification)
        with contextlib.suppress(BlockingIOError, OSError):  # our own queue is full: lost, as on any network
            self._raw.sendto(packet, (HUB, 0))

    def _next_identification(self) -> int:
        """Returns 16 bits that are never 0, because the kernel would replace 0 by a number of its own."""
        return self._identification % 0xFFFF + 1

    # ---- calls

    def stub(self) -> Any:
        """Returns a client with a connection of its own."""
        options = (("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1))
        return control_pb2_grpc.AggregatorStub(grpc.insecure_channel(self.target.control, options=options))

    def call(self, method: Any, request: Any) -> Any:
        """Makes a call. Returns the answer, or None if the call is refused or takes too long."""
        try:
            return method(request, timeout=max(0.01, min(_CALL_WITHIN, self.budget.left)), wait_for_ready=True)
        except grpc.RpcError:
            return None

    def from_many_connections(self, act: Callable[[Any], Any]) -> None:
        """Runs act(stub) as often as the budget allows, on several connections at the same time."""

        def keep_on() -> None:
            stub = self.stub()
            while self.budget.take():
                act(stub)

        threads = [threading.Thread(target=keep_on, daemon=True) for _ in range(_CONNECTIONS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(self.budget.left + _CALL_WITHIN)

    def create_job(self, stub: Any, **changes: Any) -> pb.CreateJobReply | None:
        return self.call(stub.CreateJob, job_request(**changes))

    def own_job(self, stub: Any, **changes: Any) -> pb.CreateJobReply | None:
        """Creates a job and stays in it as worker 0 until the end. Tries again as long as the switch refuses."""
        while self.budget.take():
            if (grant := self.create_job(stub, **changes)) is not None:
                self._stay_in(stub, grant)
                return grant
        return None

    def _stay_in(self, stub: Any, grant: pb.CreateJobReply) -> None:
        def messages() -> Iterator[pb.WorkerMessage]:
            yield join(grant, [0])
            while self.budget.left > 0:
                time.sleep(min(1.0, self.budget.left))
                yield pb.WorkerMessage(heartbeat=pb.Heartbeat())

        def listen(answers: Any) -> None:
            with contextlib.suppress(grpc.RpcError):
                for _ in answers:
                    pass

        answers = stub.Session(messages())
        with contextlib.suppress(grpc.RpcError, StopIteration):
            next(answers)  # the first answer says that it has joined
        threading.Thread(target=listen, args=(answers,), daemon=True).start()

    def jobs_of_others(self, stub: Any) -> list[int]:
        """Returns the ids of other jobs, which a switch may tell everybody, or else a guess."""
        status = self.call(stub.Status, pb.StatusRequest())
        return [job.job for job in status.jobs] if status and status.jobs else [1]


def job_request(
    *,
    workers: int = 1,
    devices: int | None = None,
    slots: int = 16,
    block_size: int = 256,
    blocks_per_chunk: int = 1,
    join_timeout: float = 2.0,
    heartbeat_timeout: float = 5.0,
) -> pb.CreateJobRequest:
    return pb.CreateJobRequest(
        devices=workers if devices is None else devices,
        workers=workers,
        slots=slots,
        block_size=block_size,
        blocks_per_chunk=blocks_per_chunk,
        join_timeout_s=join_timeout,
        heartbeat_timeout_s=heartbeat_timeout,
    )


def missing_request(grant: pb.CreateJobReply) -> pb.WhoIsMissingRequest:
    return pb.WhoIsMissingRequest(job=grant.job)


def join(grant: pb.CreateJobReply, ranks: Sequence[int]) -> pb.WorkerMessage:
    return pb.WorkerMessage(join=pb.Join(job=grant.job, secret=grant.secret, ranks=ranks, host="stranger", pid=1))


# ---- the registry


@dataclasses.dataclass(frozen=True)
class Attack:
    name: str
    kind: str  # the attacked port: "data", "rdma" or "control"
    doc: str
    act: Callable[[Stranger], None]
    per_second: float


ATTACKS: dict[str, Attack] = {}


def attack(kind: str, per_second: float | None = None) -> Callable[[Callable[[Stranger], None]], Any]:
    """Registers a function as an attack."""

    def register(act: Callable[[Stranger], None]) -> Callable[[Stranger], None]:
        name = act.__name__
        rate = per_second or (CALLS if kind == "control" else DATAGRAMS)
        ATTACKS[name] = Attack(name, kind, " ".join((act.__doc__ or "").split()), act, rate)
        return act

    return register


# ---- the attacking process


def attack_for(seconds: float, chosen: Attack, target: Target, seed: int) -> int:
    """Runs an attack. Returns how many packets or calls it made."""
    budget = Budget(seconds, chosen.per_second, SHARE)
    chosen.act(Stranger(target, budget, seed))
    return budget.taken


def burn_for(seconds: float, share: float) -> int:
    """The control: burns as much processor time as an attack did, and leaves the switch alone."""
    budget = Budget(seconds, 1e9, max(share, 1e-3))
    while budget.take():
        deadline = time.process_time() + 0.0005
        while time.process_time() < deadline:
            pass
    return 0


def run(act: Callable[[], int], enter: Callable[[], None], tell: Any) -> None:
    """The main function of an attacking process. Sends (the result of act, its processor time).

    It ends by os._exit, which ends the threads that an attack has left.
    """
    code = 1
    try:
        os.nice(NICE)
        enter()
        tell.send((act(), time.process_time()))
        code = 0
    except Exception as error:
        print(f"the attacker failed: {error!r}", file=sys.stderr, flush=True)
    finally:
        os._exit(code)
