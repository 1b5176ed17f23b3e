"""The specification of RDMA (docs/rdma.md), on top of specification.py.

It adds queue pairs with sequence numbers, messages of several packets, and results that are written into the workers'
memory. There is one queue pair for each worker and slot, and one more for each worker's notices.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from conformance import narrow
from conformance.specification import Aggregator, Version
from conformance.vector import Job, Packet, Receive, Value
from conformance.words import wrap

PSNS = 2**24
PLACES = 4  # places of a slot's results in the worker's memory, used by turns
LAST_NOTICE = 0x10000

BEGINS = {"write_first", "write_only", "write_only_imm"}
ENDS = {"write_last", "write_last_imm", "write_only", "write_only_imm"}


@dataclasses.dataclass
class Queue:
    """The switch's end of one queue pair."""

    psn: int = 0  # number of the next packet to send, counted from the number that the switch has told
    expected: int | None = None  # number of the next packet of the incoming message; None between messages
    first: Packet | None = None  # first packet of the incoming message
    words: list[int] = dataclasses.field(default_factory=list)
    exponents: list[int] = dataclasses.field(default_factory=list)
    size: int = 0  # bytes of the message so far


class RdmaAggregator(Aggregator):
    """An aggregator whose workers all have queue pairs. A queue pair's endpoint is that of its worker, such as "A0"."""

    def __init__(self) -> None:
        super().__init__()
        self.queues: dict[tuple[str, int | str], Queue] = {}

    def add_job(self, job: Job) -> None:
        super().add_job(job)
        for worker in range(job.workers):
            for queue in (*range(job.slots), "notices"):
                self.queues[f"{job.name}{worker}", queue] = Queue()

    def on_packet(self, sender: str, packet: Packet) -> list[Receive]:
        owner = f"{packet['job']}{packet['worker']}"
        queue = self.queues.get((owner, packet["queue"]))
        if queue is None or owner != sender:
            return self._reject("rdma_unknown_queue_pair")
        job = self.jobs[str(packet["job"])]
        fault = self._place(job, queue, packet)
        if fault:
            queue.expected = None
            return self._reject(fault)
        if packet.kind not in ENDS:
            self.verdict = "placed"
            return []
        queue.expected = None
        first = queue.first
        assert first is not None
        update = Packet(
            "update",
            {
                "job": job.name,
                "secret": job.name,
                "worker": packet["worker"],
                "slot": first["slot"],
                "epoch": first["epoch"],
                "fingerprint": packet["immediate"],
                **{name: packet[name] for name in ("format", "seed", "check") if name in packet.fields},
                "exponents": tuple(queue.exponents[: int(first["count"])]),
                "words": tuple(queue.words),
            },
        )
        replies = super().on_packet(sender, update)
        return [packet for reply in replies for packet in self._write(job, reply)]

    def _place(self, job: Job, queue: Queue, packet: Packet) -> str:
        """Takes a packet of a message. Returns "" or why it is rejected."""
        mtu, size = job.mtu, bytes_of(packet)
        if packet.kind in BEGINS:
            length = int(packet["length"])
            only = packet.kind in ENDS
            if (size != length or size > mtu) if only else (size != mtu or length <= mtu):
                return "rdma_bad_length"
            check = 4 * narrow.CHECK_WORDS if job.narrow else 0
            least = check + -(-int(packet["count"]) // 4) * 4
            largest = largest_message(job)
            named = packet["slot"] == packet["queue"] and packet["count"] <= narrow.most_exponents(job)
            if packet["key"] != job.name or not named or not least <= length <= largest or length % 4:
                return "rdma_no_access"
            queue.first, queue.words, queue.exponents, queue.size = packet, [], [], 0
        else:
            if packet["psn"] != queue.expected:
                return "rdma_out_of_sequence"
            assert queue.first is not None
            left = int(queue.first["length"]) - queue.size
            if (size != left) if packet.kind in ENDS else (size != mtu or size >= left):
                return "rdma_bad_length"
        queue.words += packet["words"]
        queue.exponents += packet["exponents"]
        queue.size += size
        queue.expected = (int(packet["psn"]) + 1) % PSNS
        return ""

    def _checks(self, check: list[int], update: Packet) -> list[int]:
        """Adds the update's check, from which the checksums of its words are taken."""
        if "check" not in update.fields:
            return []
        sums = narrow.linear_sums(narrow.raw(update))
        added = [sent - own for sent, own in zip(update["check"], sums, strict=True)]
        return [wrap(old + new) for old, new in zip(check or [0, 0], added, strict=True)]

    def _seal(self, version: Version) -> None:
        if version.check:
            plain, weighted = narrow.linear_sums(narrow.raw(version.packet()))
            plain += narrow.digest(version.exponents)
            version.check = [wrap(version.check[0] + plain), wrap(version.check[1] + weighted)]

    def _write(self, job: Job, reply: Receive) -> list[Receive]:
        """Returns the packets of one message to a worker: a result for its slot's place, or a notice."""
        packet = reply.packet
        if packet.kind != "result":
            last = packet.kind == "abort"
            fields: dict[str, Value] = {
                "place": "last_notice" if last else f"notice.{packet['slot']}",
                "immediate": LAST_NOTICE if last else packet["slot"],
                "says": packet.kind,
                **packet.fields,
            }
            return [self._packet(reply.endpoint, "notices", "write_only_imm", fields)]
        slot, epoch = int(packet["slot"]), int(packet["epoch"])
        words, exponents = packet["words"], padded(packet["exponents"])
        head: dict[str, Value] = {"place": f"{slot}.{epoch % PLACES}"}
        if job.narrow:
            body = {name: packet[name] for name in ("seed", "words", "check") if name in packet.fields}
            whole = Packet("pass", {**packet.fields, "exponents": exponents})
            head |= {"length": bytes_of(whole), "immediate": packet["fingerprint"], **body, "exponents": exponents}
            return [self._packet(reply.endpoint, slot, "write_only_imm", head)]
        pieces = cut(job, words, exponents)
        head["length"] = 4 * len(words) + len(exponents)
        written = []
        for kind, (piece_words, piece_exponents) in zip(opcodes(len(pieces)), pieces, strict=True):
            fields = dict(head) if kind in BEGINS else {}
            if kind.endswith("imm"):
                fields["immediate"] = packet["fingerprint"]
            fields |= {"words": piece_words, "exponents": piece_exponents}
            written.append(self._packet(reply.endpoint, slot, kind, fields))
        return written

    def _packet(self, endpoint: str, queue: int | str, kind: str, fields: dict[str, Value]) -> Receive:
        end = self.queues[endpoint, queue]
        psn, end.psn = end.psn, (end.psn + 1) % PSNS
        return Receive(endpoint, Packet(kind, {"queue": queue, "psn": psn, **fields}))


def bytes_of(packet: Packet) -> int:
    """Returns the bytes of a packet's payload."""
    check = len(packet.fields.get("check", ()))  # type: ignore[arg-type]
    return 4 * (len(narrow.raw(packet)) + check) + len(packet["exponents"])


def largest_message(job: Job) -> int:
    words = job.block * job.blocks + (narrow.SEED_WORDS + narrow.CHECK_WORDS if job.narrow else 0)
    return 4 * words + -(-narrow.most_exponents(job) // 4) * 4


def padded(exponents: Sequence[int]) -> tuple[int, ...]:
    return (*exponents, *[0] * (-len(exponents) % 4))


def cut(job: Job, words: Sequence[int], exponents: Sequence[int]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Cuts a message into the payloads of its packets. If all fits the MTU, there is one. Otherwise the MTU must be one
    block: each packet has a block, and the exponents have a packet of their own."""
    if 4 * len(words) + len(exponents) <= job.mtu:
        return [(tuple(words), tuple(exponents))]
    assert job.mtu == 4 * job.block
    blocks = [tuple(words[at : at + job.block]) for at in range(0, len(words), job.block)]
    return [*((block, ()) for block in blocks), *([((), tuple(exponents))] if exponents else [])]


def opcodes(packets: int) -> list[str]:
    if packets == 1:
        return ["write_only_imm"]
    return ["write_first", *["write_middle"] * (packets - 2), "write_last_imm"]
