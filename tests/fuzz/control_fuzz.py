#!/usr/bin/env python3
"""Fuzzes the control plane with strangers' messages: the switch's gRPC methods (after gRPC's own parsing, with a real
software switch as data plane), and the roll call of launched processes.

    tests/fuzz/control_fuzz.py --runs 100000 --seed 1

An execution is one message, one end of a session, or a step of time. A message is random bytes, a valid message with
damaged bytes, or a message with awkward values in some fields. After each execution a call must have answered or ended
in a typed status, a session whose stream is over must have ended, and two other jobs must be unchanged. A finding
prints the seed and the last messages. The same seed sends the same messages.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import faulthandler
import json
import logging
import random
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

import grpc
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from jaxina import _native
from jaxina.control import control_pb2 as pb
from jaxina.control import roll
from jaxina.control.limits import MAX_JOBS
from jaxina.control.service import AggregatorService
from jaxina.control.switch_planes import SwitchPlanes
from jaxina.control.typed_status import METADATA_KEY, status_of
from jaxina.errors import BY_CODE, from_code

_HANG = 120.0  # seconds; a thousand executions take far less
_MOST_SESSIONS = 8
_LONGEST_REPLY = 100_000  # bytes; gRPC's own limit is 4 MB, for thousands of jobs
_SETTLE = 50  # turns of the loop within which a session whose stream is over ends
_LOOK_AT_SWITCH_EVERY = 64  # executions
_SERVICE = pb.DESCRIPTOR.services_by_name["Aggregator"]
_UNARY = [  # name and request type of each method without a stream
    (method.name, GetMessageClass(method.input_type)) for method in _SERVICE.methods if not method.client_streaming
]
_NUMBERS = (0, 1, 2, 3, 63, 64, 255, 256, 1023, 1024, 1025, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1)
_TIMES = (0.0, -1.0, 0.5, 5.0, 1e9, 1e308, float("inf"), float("-inf"), float("nan"))
_TEXTS = ("", "a", "TIMEOUT", "WORKER_LOST", "NO_SUCH_CODE", "\0", "é" * 40, "x" * 10_000, "x" * 70_000)


class Finding(Exception):
    """The control plane has broken a promise."""


class Refused(Exception):
    """Stands for the exception that grpc.aio's context.abort raises in a handler."""


class Context:
    """The part of a call's context that the service uses."""

    def __init__(self, address: str = "192.0.2.1"):
        self._address = address

    def peer(self) -> str:
        return f"ipv4:{self._address}:50000"

    async def abort(self, status: grpc.StatusCode, details: str, metadata: Any) -> None:
        code = dict(metadata).get(METADATA_KEY)
        if code not in BY_CODE or status != status_of(from_code(code, details)):
            raise Finding(f"a status without a type: {status}, {code}, {details}")
        if len(details) > 3000:
            raise Finding(f"a message of {len(details)} characters is repeated to others")
        raise Refused(code)


class LiveSession:
    """A call of the streaming method, fed message by message."""

    def __init__(self, service: AggregatorService, first: list[pb.WorkerMessage]):
        self.joined = False
        self.stays = False  # it may have left, and waits for the others
        self.requests: asyncio.Queue[pb.WorkerMessage | None] = asyncio.Queue()
        for message in first:
            self.requests.put_nowait(message)
        self.task = asyncio.create_task(self._run(service))

    async def _run(self, service: AggregatorService) -> None:
        try:
            async for message in service.Session(self._stream(), Context()):
                self.joined = self.joined or message.WhichOneof("kind") == "joined"
                message.SerializeToString()
        except Refused:
            pass

    async def _stream(self):
        while (message := await self.requests.get()) is not None:
            yield message


class Fuzzer:
    def __init__(self, seed: int):
        self._random = random.Random(seed)
        self._now = 1000.0
        self._switch = _native.SoftwareSwitch("127.0.0.1", 1, 0.0, 0, entries=4)
        self._service = AggregatorService(SwitchPlanes(self._switch, None), lambda: self._now)
        self._sessions: list[LiveSession] = []
        self._grants: collections.deque[pb.CreateJobReply] = collections.deque(maxlen=3)  # older jobs have mostly ended
        self.recent: collections.deque[str] = collections.deque(maxlen=12)
        self.outcomes: collections.Counter[str] = collections.Counter()
        self._roll = self._new_roll()

    async def run(self, executions: int, progress: bool) -> None:
        await self._set_bystanders_up()
        before, watched = self._bystanders(), self._switch_of_bystanders()
        steps = (
            self._unary,
            self._unary,
            self._open,
            self._open,
            self._feed,
            self._feed,
            self._end,
            self._assist,
            self._tick,
            self._line,
        )
        started = time.monotonic()
        for execution in range(executions):
            if execution % 1000 == 0:
                faulthandler.dump_traceback_later(_HANG, exit=True)
                if progress:
                    rate = execution / max(time.monotonic() - started, 1e-9)
                    print(f"\r{execution:,} executions, {rate:,.0f}/s ", end="", flush=True)
            await self._random.choice(steps)()
            await self._settle()
            if self._bystanders() != before:
                raise Finding(f"other jobs changed: {before} became {self._bystanders()}")
            if execution % _LOOK_AT_SWITCH_EVERY == 0 and self._switch_of_bystanders() != watched:
                raise Finding("the data plane of other jobs changed")
        await self._tear_down()
        faulthandler.cancel_dump_traceback_later()

    # ---- the two jobs that must stay unchanged

    async def _set_bystanders_up(self) -> None:
        for joined in ((0, 1), (0,)):
            grant = await self._service.CreateJob(_sound_job(2), Context())
            for rank in joined:
                join = pb.Join(job=grant.job, secret=grant.secret, ranks=[rank], host="bystander", pid=rank)
                LiveSession(self._service, [pb.WorkerMessage(join=join)])
        await asyncio.sleep(0.01)
        self._untouchable = list(self._service._membership.jobs.values())
        assert [len(job.sessions) for job in self._untouchable] == [2, 1]

    def _bystanders(self) -> list[Any]:
        outboxes = self._service._outboxes
        return [
            (job.id, job.secret, job.spec, job.created, job.aborted, job.id in self._service._membership.jobs)
            + tuple((rank, s.host, s.pid, s.statistics, outboxes[s].qsize()) for rank, s in sorted(job.members.items()))
            for job in self._untouchable
        ]

    def _switch_of_bystanders(self) -> list[Any]:
        jobs = self._switch.statistics()["jobs"]
        if set(jobs) != set(self._service._membership.jobs) or len(jobs) > MAX_JOBS:
            raise Finding("the data plane has other jobs than the membership")
        return [(jobs[job.id], self._switch.missing(job.id)) for job in self._untouchable]

    # ---- executions

    async def _unary(self) -> None:
        method, kind = self._random.choice(_UNARY)
        sound = _sound_job(self._random.randint(1, 4)) if method == "CreateJob" else self._sound_of(kind)
        request = self._draw(kind, sound)
        if request is None:
            return
        try:
            reply = await getattr(self._service, method)(request, Context())
            if len(reply.SerializeToString()) > _LONGEST_REPLY:
                raise Finding(f"a reply of {len(reply.SerializeToString())} bytes, filled by strangers")
            if method == "CreateJob" and self._random.random() < 0.8:  # the other jobs stay unused
                self._grants.append(reply)
            self.outcomes[f"{method} answered"] += 1
        except Refused as refusal:
            self.outcomes[f"{method} {refusal}"] += 1

    async def _open(self) -> None:
        if len(self._sessions) < _MOST_SESSIONS:
            sound = self._sound_join()
            first = sound if self._random.random() < 0.5 else self._draw(pb.WorkerMessage, sound)
            session = LiveSession(self._service, [] if first is None else [first])
            self._sessions.append(session)
            await self._settle()
            self.outcomes["Session joined" if session.joined else "Session not joined"] += 1

    async def _feed(self) -> None:
        if self._sessions:
            sound = pb.WorkerMessage(heartbeat=pb.Heartbeat(statistics={"collectives": 1}))
            if self._random.random() < 0.1:
                stays = self._random.random() < 0.5
                leave = pb.Leave(code=self._random.choice(_TEXTS), message="why", until_all_left=stays)
                sound = pb.WorkerMessage(leave=leave)
            message = self._draw(pb.WorkerMessage, sound)
            if message is not None:
                session = self._random.choice(self._sessions)
                session.stays = session.stays or message.leave.until_all_left
                session.requests.put_nowait(message)
                self.outcomes[f"Session message {message.WhichOneof('kind')}"] += 1

    async def _end(self) -> None:
        """Ends a session: its stream ends, or its connection breaks. One that stays has ended its stream already."""
        if self._sessions:
            session = self._sessions.pop(self._random.randrange(len(self._sessions)))
            if self._random.random() < 0.5 and not session.stays:
                session.requests.put_nowait(None)
            else:
                session.task.cancel()
            await self._must_end(session)

    async def _assist(self) -> None:
        """Asks the switch to help with a job, and ends the call once it does."""
        request = self._draw(pb.AssistRequest, self._sound_assist())
        if request is None:
            return

        async def only() -> AsyncIterator[pb.AssistRequest]:
            yield request

        try:
            async for reply in self._service.Assist(only(), Context()):
                reply.SerializeToString()
                if request.job not in self._switch.statistics()["jobs"]:
                    raise Finding("the switch says that it helps with a job, but does not know it")
            self.outcomes["Assist answered"] += 1
        except Refused as refusal:
            self.outcomes[f"Assist {refusal}"] += 1

    async def _tick(self) -> None:
        self._now += self._random.choice((0.0, 0.1, 0.1, 3.0))
        for job in self._untouchable:
            for session in job.sessions:
                session.last_heard = self._now
        self._service.expire()

    async def _line(self) -> None:
        """Sends a line to the roll call."""
        place = {"host": "h", "pid": 1, "machine": "m"}
        sound = {
            "rank": self._random.choice((-1, 0, 1, 2, 3, 2**40)),
            "processes": 3,
            "place": place,
            "settings": {},
            "patience": 9,
        }
        line = json.dumps(
            {
                **sound,
                **self._random.choice(
                    ({}, {"rank": None}, {"place": []}, {"settings": [1]}, {"patience": -1}, {"patience": "x"})
                ),
            }
        ).encode()
        line = self._random.choice((line, self._damage(line), b"[" * 60_000, b'{"rank": 1e999}', b"\xff\n", b""))
        connection = FakeConnection()
        self._remember("roll", line)
        self._roll.note(connection, line)
        ranks = set(self._roll._here)
        if not ranks <= {0, 1, 2}:
            raise Finding(f"the roll has ranks {ranks} of 3 processes")
        if not connection.closed and connection not in [held.connection for held in self._roll._here.values()]:
            raise Finding("a connection that is in nobody's hands")
        if connection.sent and json.loads(connection.sent)["error"] not in BY_CODE:
            raise Finding(f"an answer without a type: {connection.sent!r}")
        self.outcomes[
            "Roll call " + ("refused" if connection.sent else "dropped" if connection.closed else "taken")
        ] += 1
        if len(ranks) == 3:
            self._roll = self._new_roll()

    # ---- messages

    def _draw(self, kind: type[Message], sound: Message) -> Any:
        """Returns a message of the kind, or None if protobuf itself refuses the bytes."""
        way = self._random.random()
        if way < 0.3:
            wire = sound.SerializeToString()
        elif way < 0.6:
            message = kind.FromString(sound.SerializeToString())
            self._alter(message)
            wire = message.SerializeToString()
        elif way < 0.9:
            wire = self._damage(sound.SerializeToString())
        else:
            wire = self._random.randbytes(self._random.randint(0, 40))
        self._remember(kind.__name__, wire)
        try:
            return kind.FromString(wire)
        except DecodeError:
            self.outcomes["not a message"] += 1
            return None

    def _alter(self, message: Message) -> None:
        """Gives some of the fields awkward values."""
        for field in message.DESCRIPTOR.fields:
            inner = field.message_type
            if inner is not None and field.is_repeated and not inner.GetOptions().map_entry:
                for one in getattr(message, field.name):
                    self._alter(one)
            elif inner is not None and not inner.GetOptions().map_entry:
                if message.HasField(field.name) or self._random.random() < 0.1:
                    getattr(message, field.name).SetInParent()
                    self._alter(getattr(message, field.name))
            elif self._random.random() < 0.7:
                continue
            elif inner is not None:
                for _ in range(self._random.choice((1, 100))):
                    name = self._random.choice(_TEXTS) + str(self._random.randrange(99))
                    getattr(message, field.name)[name] = self._number()
            elif field.is_repeated:
                numbers = [self._number() for _ in range(self._random.choice((0, 1, 2, 2000)))]
                message.ClearField(field.name)
                getattr(message, field.name).extend(numbers)
            elif field.cpp_type == field.CPPTYPE_STRING:
                setattr(message, field.name, self._random.choice(_TEXTS))
            elif field.cpp_type == field.CPPTYPE_DOUBLE:
                setattr(message, field.name, self._random.choice(_TIMES))
            else:
                setattr(message, field.name, self._job_id() if field.name == "job" else self._number())

    def _number(self) -> int:
        return self._random.choice(_NUMBERS)

    def _job_id(self) -> int:
        ids = [job.id for job in self._untouchable] + [grant.job for grant in self._grants]
        return self._random.choice(ids) if self._random.random() < 0.8 else self._number()

    def _sound_of(self, kind: type[Message]) -> Message:
        """Returns a request of the kind. If the kind names a job, it names one of ours."""
        grant = self._random.choice(self._grants) if self._grants else pb.CreateJobReply()
        known = {field.name for field in kind.DESCRIPTOR.fields}
        if kind is pb.ConnectQueuePairsRequest:
            end = pb.QueuePairs(address="192.0.2.1", udp_port=4791, mtu=1024, qpns=(1, 2, 3))
            return kind(job=grant.job, secret=grant.secret, rank=self._random.randrange(3), worker=end)
        return kind(**{name: getattr(grant, name) for name in ("job", "secret") if name in known})

    def _sound_join(self) -> pb.WorkerMessage:
        grant = self._random.choice(self._grants) if self._grants else pb.CreateJobReply()
        ranks = [self._random.randrange(3)]
        join = pb.Join(job=grant.job, secret=grant.secret, ranks=ranks, host="stranger", pid=1)
        if self._random.random() < 0.3:
            host = self._random.choice(("192.0.2.1", "2001:db8::1", "224.0.0.1", "no address", ""))
            join.server.CopyFrom(pb.WorkerServer(host=host, port=self._random.choice((0, 4791, 70_000)), room=64))
        return pb.WorkerMessage(join=join)

    def _sound_assist(self) -> pb.AssistRequest:
        """A request to combine two racks, the first of them a group, to be a server of such a job, or to sum a rack."""
        addresses = [pb.DataAddress(host="192.0.2.9", port=4000 + i) for i in range(self._random.randint(1, 3))]
        workers = self._random.randint(2, 5)
        rack = list(range(workers - 1))
        request = pb.AssistRequest(job=self._number(), secret=1, workers=workers, devices=workers)
        request.slots, request.block_size, request.blocks_per_chunk = 2, 8, 1
        kind = self._random.randrange(5)
        if kind < 2:
            children = [pb.Child(workers=rack, group=0), pb.Child(workers=[workers - 1])]
            request.combine.CopyFrom(pb.Combine(group=1, children=children, upstream=addresses, ways=3))
        elif kind == 2:
            ends = [pb.QueuePairs(address=f"192.0.2.{w}", udp_port=4791, mtu=1024, qpns=[5, 6]) for w in range(workers)]
            request.rack.CopyFrom(pb.RackOfRing(ends=ends, racks=[int(w in rack) for w in range(workers)], own=1))
        else:
            groups = [pb.Group(workers=rack), pb.Group(workers=range(workers))]
            request.serve.CopyFrom(pb.Serve(index=0, of=2, switches=addresses, groups=groups))
        return request

    def _damage(self, wire: bytes) -> bytes:
        damaged = bytearray(wire)
        for _ in range(self._random.randint(1, 4)):
            place = self._random.randint(0, len(damaged))
            match self._random.randrange(4):
                case 0 if place < len(damaged):
                    damaged[place] ^= 1 << self._random.randrange(8)
                case 1:
                    damaged.insert(place, self._random.randrange(256))
                case 2:
                    del damaged[place : place + self._random.randint(1, 8)]
                case _:
                    damaged[place:place] = damaged[: self._random.randint(0, 16)]
        return bytes(damaged)

    # ---- checks

    async def _settle(self) -> None:
        for _ in range(4):
            await asyncio.sleep(0)
        for session in [session for session in self._sessions if session.task.done()]:
            self._sessions.remove(session)
            session.task.result()  # raises if the session ended in anything but a typed status

    async def _must_end(self, session: LiveSession) -> None:
        for _ in range(_SETTLE):
            if session.task.done():
                break
            await asyncio.sleep(0)
        else:
            raise Finding("a session whose stream is over goes on")
        if not session.task.cancelled():
            session.task.result()

    async def _tear_down(self) -> None:
        while self._sessions:
            await self._end()
        self._now += 100_000.0
        for job in self._untouchable:
            for session in job.sessions:
                session.last_heard = self._now
        self._service.expire()
        left = set(self._service._membership.jobs) ^ {job.id for job in self._untouchable}
        if left or len(self._service._outboxes) != 3:
            raise Finding(f"left behind: jobs {left}, {len(self._service._outboxes) - 3} outboxes")
        self._switch_of_bystanders()
        self._switch.stop()

    def _remember(self, what: str, wire: bytes) -> None:
        self.recent.append(f"{what} {len(wire)} bytes {wire[:80].hex()}")

    @staticmethod
    def _new_roll() -> roll.Roll:
        return roll.Roll(None, 3, lambda: "")


class FakeConnection:
    sent = b""
    closed = False

    def sendall(self, data: bytes) -> None:
        self.sent += data

    def settimeout(self, _: float) -> None:
        pass

    def setblocking(self, _: bool) -> None:
        pass

    def close(self) -> None:
        self.closed = True


def _sound_job(workers: int) -> pb.CreateJobRequest:
    return pb.CreateJobRequest(
        devices=workers,
        workers=workers,
        slots=2,
        block_size=8,
        blocks_per_chunk=1,
        join_timeout_s=5,
        heartbeat_timeout_s=5,
    )


async def _fuzz(seed: int, runs: int, progress: bool) -> collections.Counter[str]:
    failures: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(str(context)))
    fuzzer = Fuzzer(seed)
    try:
        await fuzzer.run(runs, progress)
        if failures:
            raise Finding(f"a task failed unseen: {failures[0]}")
    except BaseException:
        print(f"\nfinding: seed {seed}; last messages:", *fuzzer.recent, sep="\n  ", file=sys.stderr)
        raise
    return fuzzer.outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    logging.getLogger("jaxina").setLevel(logging.ERROR)
    started = time.monotonic()
    outcomes = asyncio.run(_fuzz(arguments.seed, arguments.runs, sys.stdout.isatty()))
    seconds = time.monotonic() - started
    for what, times in sorted(outcomes.items()):
        print(f"  {what:40} {times:12,}")
    print(f"{arguments.runs:,} executions, 0 findings, {seconds:.0f} s")


if __name__ == "__main__":
    main()
