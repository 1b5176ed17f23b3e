"""Runs a vector against a device, and reports the differences."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Protocol

from conformance.vector import (
    Comment,
    Count,
    Job,
    Packet,
    Receive,
    Send,
    State,
    Switch,
    Value,
    Vector,
    Wait,
    line_of,
)

# The counters of a job that say what became of its well-formed packets.
_VERDICTS = {
    *("updates", "results", "duplicates", "stale", "ahead"),
    *("wrong_secret", "bad_worker", "bad_slot"),
    *("claims", "joins", "combined", "absorbed", "collisions", "passed_on", "replies"),
}


class Device(Protocol):
    """An aggregator that vectors are sent to."""

    name: str
    # What vectors may need, and what is compared if the device has it: "notices" and "rdma_notices" (what is sent
    # besides results), "state", and "counters" or, as a part of these, "verdicts".
    abilities: AbstractSet[str]
    block_sizes: AbstractSet[int]  # words

    def begin(self, vector: Vector) -> None:
        """Makes the vector's jobs, with fresh slots."""
        ...

    def send(self, endpoint: str, packet: Packet) -> None: ...

    def wait(self, milliseconds: int) -> None:
        """Lets time pass. Called only for devices with the ability "combine"."""
        ...

    def replies(self, expected: int) -> list[Receive]:
        """Returns what the device has sent since the last call. Waits, for a bounded time, until at least `expected`
        packets have come."""
        ...

    def state(self, job: str, slot: int, version: int) -> dict[str, Value | None]:
        """Returns a version's state, by the names of a `state` line. A value is None if the device cannot tell it.
        Called only for devices with the ability "state"."""
        ...

    def counts(self, job: str) -> dict[str, int]:
        """Returns the counters of a job since begin(). For "-" they are those of packets that belong to no job. A
        counter that is missing is 0."""
        ...

    def end(self) -> None:
        """Removes the vector's jobs."""
        ...

    def close(self) -> None: ...


@dataclasses.dataclass
class Outcome:
    vector: Vector
    lacking: set[str]  # the missing abilities because of which it was not run
    failures: list[str]
    packets: int = 0

    @property
    def text(self) -> str:
        if self.lacking:
            return f"not run: needs {', '.join(sorted(self.lacking))}"
        return "FAILED" if self.failures else "passed"


def run(vector: Vector, device: Device) -> Outcome:
    sizes = {job.block for job in vector.jobs}
    lacking = vector.needs - device.abilities
    lacking |= {f"blocks of {size}" for size in sizes - device.block_sizes}
    outcome = Outcome(vector, lacking, [])
    if lacking:
        return outcome
    device.begin(vector)
    try:
        for packet, answers, checks in _exchanges(vector):
            if isinstance(packet, Wait):
                device.wait(packet.milliseconds)
            else:
                _exchange(device, packet, answers, outcome)
            for check in checks:
                _check(device, check, outcome)
    finally:
        device.end()
    return outcome


def _exchanges(vector: Vector) -> Iterable[tuple[Send | Wait | None, list[Receive], list[State | Count]]]:
    """Yields each packet with the replies that it must cause, or a time, and the checks that follow it."""
    sent: Send | Wait | None = None
    answers: list[Receive] = []
    checks: list[State | Count] = []
    for step in vector.steps:
        if isinstance(step, Send | Wait):
            yield sent, answers, checks
            sent, answers, checks = step, [], []
        elif isinstance(step, Receive):
            answers.append(step)
        elif isinstance(step, State | Count):
            checks.append(step)
        else:
            assert isinstance(step, Job | Switch | Comment)
    yield sent, answers, checks


def _exchange(device: Device, sent: Send | None, answers: list[Receive], outcome: Outcome) -> None:
    if sent is None:
        return
    answers = _without_notices(answers, device)
    device.send(sent.endpoint, sent.packet)
    outcome.packets += 1
    came = _without_notices(device.replies(len(answers)), device)
    differences = _differences(answers, came)
    if differences:
        outcome.failures.append("\n".join([f"after   {line_of(sent)}", *differences]))


def _without_notices(packets: list[Receive], device: Device) -> list[Receive]:
    """Removes the notices that the device is free to send or not."""
    return [one for one in packets if _notice(one.packet) in device.abilities | {None}]


def _notice(packet: Packet) -> str | None:
    """Returns the ability that a device needs to send this packet; None for results, which all must send."""
    if packet.fields.get("queue") == "notices":
        return "rdma_notices"
    return "notices" if packet.kind in ("pending", "refused", "abort") else None


def _differences(wanted: Sequence[Receive], came: Sequence[Receive]) -> list[str]:
    """Returns a line for each packet that differs. Packets to one endpoint must come in order; packets to different
    endpoints need not."""
    lines = []
    for endpoint in sorted({r.endpoint for r in (*wanted, *came)}):
        ours = [line_of(r) for r in wanted if r.endpoint == endpoint]
        theirs = [line_of(r) for r in came if r.endpoint == endpoint]
        missing = [f"missing {line}" for line in _without(ours, theirs)]
        extra = [f"extra   {line}" for line in _without(theirs, ours)]
        if not missing and not extra and ours != theirs:
            extra = [f"came in this order: {line}" for line in theirs]
        lines += missing + extra
    return lines


def _without(lines: list[str], others: list[str]) -> list[str]:
    """Returns the lines that `others` lacks, or has less often."""
    left = collections.Counter(lines) - collections.Counter(others)
    return list(left.elements())


def _check(device: Device, check: State | Count, outcome: Outcome) -> None:
    if isinstance(check, State):
        if "state" not in device.abilities:
            return
        slot, version = int(check.fields["slot"]), int(check.fields["version"])
        wanted = check.fields
        found = {"slot": slot, "version": version}
        for name, value in device.state(check.job, slot, version).items():
            found[name] = wanted.get(name, "?") if value is None else value
    else:
        wanted, found = _compared(check, device)
    if found != wanted:
        kind = type(check)
        outcome.failures.append(
            f"must be {line_of(kind(check.job, wanted))}\nbut is  {line_of(kind(check.job, found))}"
        )


def _compared(check: Count, device: Device) -> tuple[dict[str, Value], dict[str, Value]]:
    """Returns the counters that this device can be asked for: as they must be, and as they are."""
    if not device.abilities & {"counters", "verdicts"}:
        return {}, {}
    counted = {name: value for name, value in device.counts(check.job).items() if value}
    names = set(check.fields) | set(counted)
    if "counters" not in device.abilities:
        names &= set() if check.job == "-" else _VERDICTS
    names_in_order = [name for name in (*check.fields, *counted) if name in names]
    return (
        {name: check.fields.get(name, 0) for name in names_in_order},
        {name: counted.get(name, 0) for name in names_in_order},
    )
