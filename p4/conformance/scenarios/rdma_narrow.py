"""Scenarios of narrow words in RDMA messages (docs/rdma.md).

Such messages carry a check. Sums that are divided are not what the workers' checks add up to, so the aggregator takes
the checksums of each update's words out of the check, and puts those of the result's words in.
"""

from __future__ import annotations

from conformance import narrow
from conformance.rdma_script import RdmaScript
from conformance.scenarios.narrow import LARGEST, SEED, mixed
from conformance.vector import Packet, Receive, Value, Vector
from conformance.words import run


class NarrowScript(RdmaScript):
    def __init__(self, name: str, size: int, about: str, workers: int):
        super().__init__(name, size, about, ["narrow"])
        self.workers = workers
        self.job("A", workers, slots=1, mtu=8 * size, narrow=True)

    def message_of(self, worker: int, epoch: int, **body: Value) -> Packet:
        """Returns a message of one packet, with the check that a worker sends."""
        fields = {name: body[name] for name in ("seed", "words") if name in body}
        exponents = tuple(body["exponents"])  # type: ignore[arg-type]
        whole = Packet("pass", {**body, "exponents": (*exponents, *[0] * (-len(exponents) % 4))})
        immediate = 0x1000 + epoch
        check = narrow.check_of(narrow.raw(whole), immediate, epoch)
        return Packet(
            "write_only_imm",
            {
                "job": "A",
                "worker": worker,
                "queue": 0,
                "psn": 7,
                "key": "A",
                "slot": 0,
                "epoch": epoch,
                **({"format": body["format"]} if "format" in body else {}),
                "count": len(exponents),
                "length": 4 * (len(narrow.raw(whole)) + narrow.CHECK_WORDS) + len(whole["exponents"]),
                "immediate": immediate,
                **fields,
                "check": check,
                "exponents": whole["exponents"],
            },
        )

    def message_from(self, worker: int, epoch: int, verdict: str, **body: Value) -> list[Receive]:
        """Sends a message. A result must have the check that the workers expect."""
        sent = self.message_of(worker, epoch, **body)
        replies = self.send(f"A{worker}", sent, verdict)
        for reply in replies:
            if "check" in reply.packet.fields:
                self._verify(reply.packet, sent)
        return replies

    def _verify(self, result: Packet, sent: Packet) -> None:
        words = narrow.raw(Packet("pass", {"format": narrow.format_of(sent), **result.fields}))
        plain, weighted = narrow.check_of(words, int(sent["immediate"]), int(sent["epoch"]), self.workers)
        exponents = result["exponents"][: int(sent["count"])]  # type: ignore[index]
        expected = (plain + narrow.digest(exponents)) % 2**32, weighted % 2**32
        assert tuple(word % 2**32 for word in result["check"]) == expected, "workers would refuse this result"

    def all_messages(self, epoch: int, bodies: list[dict[str, Value]]) -> None:
        for worker, body in enumerate(bodies):
            verdict = "complete" if worker == len(bodies) - 1 else "added" if worker else "first"
            self.message_from(worker, epoch, verdict, **body)


def rdma_narrow(size: int) -> Vector:
    script = NarrowScript(
        "rdma_narrow",
        size,
        """Messages with words of 8, 16 and 32 bits, rounded to nearest and at random, with the check that a worker
        expects behind the results' words.""",
        workers=3,
    )
    script.all_messages(0, [{"words": (), "exponents": (9, w, 3, 0)} for w in range(3)])
    for epoch, (form, seed, count) in enumerate(
        (("int8", 0, 16), ("int8", SEED, 20), ("int16", 0, 6), ("int16", SEED, 8)), 1
    ):
        words = [mixed(worker, count, LARGEST[form]) for worker in range(3)]
        own = [{"format": form, "seed": seed, "words": tuple(w), "exponents": (1, w[0] % 256)} for w in words]
        script.all_messages(epoch, own)  # type: ignore[arg-type]
        script.state()
    script.say("words of 32 bits; before the exponents they fill whole blocks")
    script.all_messages(5, [{"words": tuple(run(w, 7, size)), "exponents": (4 + w,)} for w in range(3)])
    script.say("a whole chunk, without exponents")
    full = tuple(run(-60, 1, 64)) * (size // 16)
    script.all_messages(6, [{"format": "int8", "seed": 0, "words": full, "exponents": ()} for _ in range(3)])
    script.state()
    return script.finish()


def rdma_narrow_flags(size: int) -> Vector:
    script = NarrowScript(
        "rdma_narrow_flags",
        size,
        """Flags are ored, so their checks do not add up either. A flag that all workers have must not be in the check
        three times.""",
        workers=3,
    )
    flags = {"format": "flags", "words": (1, 2, 0x5555, -1), "exponents": (1, 2)}
    script.all_messages(0, [dict(flags) for _ in range(3)])  # type: ignore[arg-type]
    script.all_messages(
        1, [{"format": "flags", "words": (1 << w, 0, -(2**31)), "exponents": (200 + w,)} for w in range(3)]
    )
    script.state()
    return script.finish()


def rdma_narrow_repeated(size: int) -> Vector:
    script = NarrowScript(
        "rdma_narrow_repeated",
        size,
        """Messages come several times, or in another format. Neither words nor check count twice, and a result that is
        sent again is the same.""",
        workers=2,
    )
    for epoch, (form, seed) in enumerate((("int8", SEED), ("int16", 0))):
        other = "int16" if form == "int8" else "int8"
        bodies = [
            {"format": form, "seed": seed, "words": tuple(mixed(w, 8, LARGEST[form])), "exponents": (w, 50)}
            for w in range(2)
        ]
        # It has as many bytes, and as many exponents.
        changed = {"format": other, "seed": seed, "words": (1,) * (4 if form == "int8" else 16), "exponents": (1, 50)}
        script.message_from(0, epoch, "first", **bodies[0])  # type: ignore[arg-type]
        script.message_from(0, epoch, "duplicate", **bodies[0])  # type: ignore[arg-type]
        script.message_from(1, epoch, "mismatch", **changed)  # type: ignore[arg-type]
        script.state()
        script.message_from(1, epoch, "complete", **bodies[1])  # type: ignore[arg-type]
        script.message_from(1, epoch, "resend", **bodies[1])  # type: ignore[arg-type]
        script.message_from(0, epoch, "resend", **bodies[0])  # type: ignore[arg-type]
        script.state()
    return script.finish()


def rdma_narrow_no_access(size: int) -> Vector:
    script = NarrowScript(
        "rdma_narrow_no_access",
        size,
        """Messages that are too short for their check, have more exponents or words than a chunk, or no seed.""",
        workers=2,
    )
    body: dict[str, Value] = {"format": "int8", "seed": SEED, "words": (5,) * 8, "exponents": (1, 2)}
    good = script.message_of(0, 0, **body)
    script.message_from(1, 0, "first", **body)
    script.say("four bytes less than a check; a check that leaves no room for the seed")
    script.send("A0", _changed(good, words=(), check=(5,), exponents=(), count=0, length=4), "rdma_no_access")
    script.send("A0", _changed(good, words=(), exponents=(), count=0, length=8), "too_large")
    script.send("A0", _changed(good, words=(5,), exponents=(), count=0, length=12), "too_large")
    script.say("five exponents, and a word more than the largest message has")
    script.send("A0", _changed(good, words=(), exponents=(1,) * 8, count=5, length=16), "rdma_no_access")
    long = (5,) * (size + 4)
    script.send("A0", _changed(good, words=long, exponents=(), count=0, length=4 * (size + 6)), "rdma_no_access")
    script.say("a chunk and one word, where the exponents could be")
    long = (5,) * (size + 3)
    script.send("A0", _changed(good, words=long, exponents=(), count=0, length=4 * (size + 5)), "too_large")
    script.state()
    script.message_from(0, 0, "complete", **body)
    script.state()
    return script.finish()


def rdma_narrow_refused(size: int) -> Vector:
    script = RdmaScript(
        "rdma_narrow_refused",
        size,
        """A job without narrow words is sent some, in messages of a whole chunk. They change nothing.""",
        needs=["sizes"],
    )
    script.one_packet_job("A", workers=2, slots=1)
    script.message(0, 0, "first")
    other = script.packets(1, words=(5,) * size)[0]
    for form in ("int8", "int16", "flags"):
        script.send("A1", Packet(other.kind, {**other.fields, "format": form}), "too_large")
    script.state()
    script.message(1, 0, "complete")
    script.state()
    return script.finish()


def _changed(packet: Packet, **changes: Value) -> Packet:
    """Returns the packet with these fields, and without a seed: its words are 32 bits each, as they lie in it."""
    return Packet(packet.kind, {name: changes.get(name, v) for name, v in packet.fields.items() if name != "seed"})


SCENARIOS = (rdma_narrow, rdma_narrow_flags, rdma_narrow_repeated, rdma_narrow_no_access, rdma_narrow_refused)
