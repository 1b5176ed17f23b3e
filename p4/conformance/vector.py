"""Reads and writes vector files. A file has one packet per line, with named fields:

    needs notices
    job A workers=3 slots=4 block=64 blocks=1
    # what follows, in words
    send A0 update job=A secret=A worker=0 slot=2 epoch=0 fingerprint=0x11 exponents=120
    words=10+1*64
    recv A0 result job=A secret=A slot=2 epoch=0 fingerprint=0x11 exponents=122 words=33+3*64
    state A slot=2 version=0 epoch=0 count=3 seen=0,1,2 exponents=122 words=33+3*64
    count A updates=3 results=1 duplicates=0
    count - unknown_job=1

Vectors of a device that combines updates also have these lines:

    switch entries=1
    job A workers=3 slots=2 block=64 blocks=1 servers=1
    wait milliseconds=150
    recv As0 combined job=A secret=A worker=g0 slot=2 epoch=0 fingerprint=0x11 transmission=first exponents=- words=9

`send` and `recv` name an endpoint: `A0` is where worker 0 of job A lives, `As0` where its
server 0 does, `Ag1` the switch below with its group 1. `X` is a stranger. The `recv` lines before
the next `send` list everything that the device sends; nothing else may come. `state` and `count` say what must hold at
that point. Numbers that the control plane draws (job ids, secrets, keys, queue pairs) are written as names.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

from conformance import words

Value = int | str | tuple[int, ...]

# How the values of these fields are written. All others are decimal numbers, or names.
_HEX = {"fingerprint", "immediate", "seed"}
_WORDS = {"words", "check"}
_LISTS = {"exponents", "seen"}


@dataclasses.dataclass
class Job:
    """A job that the device has before the first packet."""

    name: str
    workers: int
    slots: int
    block: int  # words that share an exponent
    blocks: int  # per chunk
    first_epoch: int = 0  # epoch of every slot's first pass
    mtu: int = 0  # payload bytes of an RDMA packet; 0: the job's workers send datagrams
    narrow: int = 0  # 1: passes may have words of 8 or 16 bits; RDMA messages carry a check
    servers: int = 0  # the device combines the job's updates on their way to so many servers; 0: it sums them
    below: str = ""  # groups whose sums another switch sends to this one: "1:0+2" is group 1, of workers 0 and 2

    @property
    def groups(self) -> dict[int, tuple[int, ...]]:
        """The groups below, by their numbers. The group of all workers has the number 0."""
        parts = [part.split(":") for part in self.below.split("/") if part]
        return {int(number): tuple(map(int, workers.split("+"))) for number, workers in parts}


@dataclasses.dataclass
class Switch:
    """The table of a device that combines updates: how many entries all jobs share."""

    entries: int


@dataclasses.dataclass
class Wait:
    """Time that passes, for a device that combines updates."""

    milliseconds: int


@dataclasses.dataclass
class Comment:
    text: str


@dataclasses.dataclass
class Packet:
    """A packet. `kind` is that of a datagram (update, combined, result, pending, refused, abort), or an RDMA opcode."""

    kind: str
    fields: dict[str, Value]

    def __getitem__(self, name: str) -> Value:
        return self.fields[name]


@dataclasses.dataclass
class Send:
    endpoint: str
    packet: Packet


@dataclasses.dataclass
class Receive:
    endpoint: str
    packet: Packet


@dataclasses.dataclass
class State:
    """The registers of one version of a slot, by the specification's names."""

    job: str
    fields: dict[str, Value]


@dataclasses.dataclass
class Count:
    """Counters of a job, or of packets that belong to none (`job` is "-")."""

    job: str
    fields: dict[str, Value]


Step = Job | Switch | Wait | Comment | Send | Receive | State | Count


@dataclasses.dataclass
class Vector:
    name: str
    needs: set[str]  # abilities that a device must have to be sent this vector
    steps: list[Step]

    @property
    def entries(self) -> int | None:
        """How many entries the device's table must have; None: as many as it likes."""
        return next((step.entries for step in self.steps if isinstance(step, Switch)), None)

    @property
    def jobs(self) -> list[Job]:
        return [step for step in self.steps if isinstance(step, Job)]


def read(path: Path) -> Vector:
    vector = Vector(path.stem, set(), [])
    for number, line in enumerate(path.read_text().splitlines(), 1):
        try:
            _read_line(line, vector)
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path}:{number}: {line!r}: {error}") from None
    return vector


def _read_line(line: str, vector: Vector) -> None:
    if not line:
        return
    if line.startswith("#"):
        vector.steps.append(Comment(line[1:].strip()))
        return
    verb, *rest = line.split()
    if verb == "needs":
        vector.needs = set(rest)
    elif verb == "job":
        vector.steps.append(Job(rest[0], **_fields(rest[1:])))  # type: ignore[arg-type]
    elif verb in ("switch", "wait"):
        vector.steps.append((Switch if verb == "switch" else Wait)(**_fields(rest)))  # type: ignore[arg-type]
    elif verb in ("send", "recv"):
        step = Send if verb == "send" else Receive
        vector.steps.append(step(rest[0], Packet(rest[1], _fields(rest[2:]))))
    elif verb in ("state", "count"):
        vector.steps.append((State if verb == "state" else Count)(rest[0], _fields(rest[1:])))
    else:
        raise ValueError(f"no line begins with {verb}")


def _fields(texts: list[str]) -> dict[str, Value]:
    fields: dict[str, Value] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if name in _WORDS:
            fields[name] = tuple(words.from_text(value))
        elif name in _LISTS:
            fields[name] = tuple(int(item) for item in value.split(",") if item != "-")
        else:
            try:
                fields[name] = int(value, 0)
            except ValueError:
                fields[name] = value
    return fields


def to_text(vector: Vector) -> str:
    return "\n".join(_lines(vector)) + "\n"


def _lines(vector: Vector) -> Iterator[str]:
    if vector.needs:
        yield " ".join(["needs", *sorted(vector.needs)])
    last = ""
    for step in vector.steps:
        verb = type(step).__name__
        if verb == "Comment" and last not in ("", "Comment"):
            yield ""
        yield line_of(step)
        last = verb


def line_of(step: Step) -> str:
    if isinstance(step, Comment):
        return f"# {step.text}"
    if isinstance(step, Job):
        fields: dict[str, Value] = dataclasses.asdict(step)
        del fields["name"]
        for name in ("first_epoch", "mtu", "narrow", "servers", "below"):
            if not fields[name]:
                del fields[name]
        return _line("job", step.name, fields)
    if isinstance(step, Switch | Wait):
        return _line(type(step).__name__.lower(), "", dataclasses.asdict(step))
    if isinstance(step, Send | Receive):
        verb = "send" if isinstance(step, Send) else "recv"
        return _line(f"{verb} {step.endpoint}", step.packet.kind, step.packet.fields)
    return _line("state" if isinstance(step, State) else "count", step.job, step.fields)


def _line(verb: str, name: str, fields: dict[str, Value]) -> str:
    parts = [verb, name, *(f"{key}={_value(key, value)}" for key, value in fields.items())]
    return " ".join(part for part in parts if part)


def _value(name: str, value: Value) -> str:
    if isinstance(value, str):
        return value
    if name in _WORDS:
        return words.to_text(value)  # type: ignore[arg-type]
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "-"
    return f"{value:#x}" if name in _HEX else str(value)
